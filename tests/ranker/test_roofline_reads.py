"""Reads of roofline figures and of runs under a floor."""

import pytest

from ranker.domain.goals import BELOW_FLOOR
from shared import events, subjects
from tests.support.lives import ROOF, Life, say
from tests.support.reading import Reads
from tests.support.waits import eventually

pytestmark = pytest.mark.server
RATES = {
    "bandwidth_gb_s": pytest.approx(8.0),
    "gflops": pytest.approx(1.0),
    "dtype": "fp32",
    "share": None,
    "bound": None,
}


@pytest.mark.feature("P24", "N6")
async def test_a_timed_case_says_its_rates_and_a_row_its_share(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1", time_us=100.0))
    assert submission["cases"][0]["roofline"] == RATES
    assert "roofs" not in submission
    (row,) = await reads.board()
    assert row["roofline_fraction"] is None


async def test_a_time_under_its_floor_ranks_once_somebody_looked(reads: Reads) -> None:
    quick = Life("s9", account="grace", time_us=ROOF.floors_us[""] / 2)
    _, submission = await reads.ended(Life("s1"), quick)
    assert (submission["is_held"], submission["is_eligible"], submission["code"]) == (
        True,
        False,
        BELOW_FLOOR,
    )
    assert submission["ranking"]["status"] == "held"
    assert submission["score_us"] == quick.time_us
    assert [row["submission"] for row in await reads.board()] == ["s1"]

    await say(reads.log, subjects.moderation("s9"), events.SubmissionReleased(reason="a new way"))

    async def both() -> bool:
        return [row["submission"] for row in await reads.board()] == ["s9", "s1"]

    assert await eventually(both)
    ranking = (await reads.get(f"submissions/{submission['number']}"))["ranking"]
    assert (ranking["status"], ranking["rank"], ranking["code"]) == ("ranked", 1, "ranked")
    assert ranking["reason"] == "released by an operator: a new way"
