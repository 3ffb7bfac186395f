"""Statistics for operators, as ingest requests them."""

from typing import Any

import pytest

from tests.support.lives import Life
from tests.support.reading import reading

pytestmark = pytest.mark.server


@pytest.mark.feature("A2")
async def test_stats_count_submissions_and_runs_by_gpu_type(postgres_dsn: str) -> None:
    async with reading(postgres_dsn) as reads:
        await reads.ended(Life("a", account="ada"), Life("b", account="ada"))
        for query in ("", "?problem=identity"):
            answer = await reads.http.get(f"/internal/stats{query}")
            assert answer.status_code == 200, answer.text
            counts: dict[str, Any] = answer.json()
            assert (counts["num_submissions"], counts["sub_waiting"], counts["num_users"]) == (
                2,
                0,
                1,
            )
            assert (counts["num_run.CPU"], counts["runs_passed.CPU"]) == (2, 2)
            assert counts["total_runtime.CPU"] > 0
            assert 0 <= counts["avg_delay.CPU"] <= counts["max_delay.CPU"]
        # These lives are old; nothing is of the last day, and nothing of an unknown problem.
        for query in ("?is_last_day=true", "?problem=nothing"):
            nothing = (await reads.http.get(f"/internal/stats{query}")).json()
            assert nothing["num_submissions"] == 0
            assert "num_run.CPU" not in nothing
