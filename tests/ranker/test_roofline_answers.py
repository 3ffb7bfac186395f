"""What is answered of times beside the roofline, and of those under their floor."""

import pytest

from ranker.domain.roofs import BELOW_FLOOR
from shared import events, subjects
from shared.testing import eventually
from tests.support.lives import ROOF, Life, say
from tests.support.reading import Reads

pytestmark = pytest.mark.server
RATES = {
    "bandwidth_gb_s": pytest.approx(8.0),
    "gflops": pytest.approx(1.0),
    "dtype": "fp32",
    "share": None,
    "bound": None,
}


async def test_a_timed_case_says_its_rates_and_a_row_its_share(reads: Reads) -> None:
    (found,) = await reads.ended(Life("s1", time_us=100.0))
    assert found["cases"][0]["roofline"] == RATES
    assert "roofs" not in found
    (row,) = await reads.board()
    assert row["roofline_fraction"] is None


async def test_a_time_under_its_floor_ranks_once_somebody_looked(reads: Reads) -> None:
    quick = Life("s9", account="grace", time_us=ROOF.floors_us[""] / 2)
    _, found = await reads.ended(Life("s1"), quick)
    assert (found["is_held"], found["is_eligible"], found["code"]) == (True, False, BELOW_FLOOR)
    assert found["ranking"]["status"] == "held"
    assert found["score_us"] == quick.time_us
    assert [row["submission"] for row in await reads.board()] == ["s1"]

    await say(reads.log, subjects.moderation("s9"), events.SubmissionReleased(reason="a new way"))

    async def both() -> bool:
        return [row["submission"] for row in await reads.board()] == ["s9", "s1"]

    assert await eventually(both)
    ranking = (await reads.get(f"submissions/{found['number']}"))["ranking"]
    assert (ranking["status"], ranking["rank"], ranking["code"]) == ("ranked", 1, "ranked")
    assert ranking["reason"] == "released by an operator: a new way"
