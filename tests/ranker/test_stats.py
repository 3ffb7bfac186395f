"""How much there was to do, as ingest asks it for its operators."""

from typing import Any

import pytest

from tests.support.lives import Life
from tests.support.reading import reading

pytestmark = pytest.mark.server


async def test_stats_count_submissions_and_runs_by_gpu_type(postgres_dsn: str) -> None:
    async with reading(postgres_dsn) as reads:
        await reads.ended(Life("a", account="ada"), Life("b", account="ada"))
        for query in ("", "?problem=identity"):
            answer = await reads.http.get(f"/internal/stats{query}")
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            assert (found["num_submissions"], found["sub_waiting"], found["num_users"]) == (2, 0, 1)
            assert (found["num_run.CPU"], found["runs_passed.CPU"]) == (2, 2)
            assert found["total_runtime.CPU"] > 0
            assert 0 <= found["avg_delay.CPU"] <= found["max_delay.CPU"]
        # These lives are old; nothing is of the last day, and nothing of an unknown problem.
        for query in ("?is_last_day=true", "?problem=nothing"):
            nothing = (await reads.http.get(f"/internal/stats{query}")).json()
            assert nothing["num_submissions"] == 0
            assert "num_run.CPU" not in nothing
