"""An audit finds what counts under a floor, and takes what an operator released for what it is."""

from pathlib import Path

import pytest

from ranker.domain.roofs import BELOW_FLOOR
from shared import events, subjects
from tests.ranker.audited import Town
from tests.ranker.test_audit import asked
from tests.support.lives import ROOF, Life

FLOOR_US = ROOF.floors_us[""]
QUICK = Life("s9", time_us=FLOOR_US / 2)
RELEASED = events.SubmissionReleased(reason="a better way")


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(Life("s1"))
    return town


async def held(town: Town, score_us: float | None = None) -> None:
    """The quick one, as a ranker ends it, and what people then decide."""
    await town.run(QUICK)
    await town.end(QUICK, score_us, BELOW_FLOOR)


async def test_what_counts_under_a_floor_is_found(town: Town) -> None:
    await town.live(QUICK)
    report = await asked(town)
    (finding,) = report.findings
    assert finding.what.endswith("is under a floor")


async def test_what_is_held_under_a_floor_is_no_row_and_no_finding(town: Town) -> None:
    await held(town)
    report = await asked(town)
    assert (report.findings, [one.row.submission for one in report.rows]) == ([], ["s1"])


@pytest.mark.parametrize(
    "facts",
    [
        (RELEASED,),
        (events.AppealDecided(is_accepted=True, reason="fine"),),
        (events.SubmissionHeld(rule="r", reason=""), RELEASED),
    ],
)
async def test_what_was_released_counts_from_then_on(
    town: Town, facts: tuple[events.Fact, ...]
) -> None:
    await held(town)
    for fact in facts:
        await town.say(subjects.moderation(QUICK.id), fact)
    report = await asked(town)
    assert (report.findings, [one.row.submission for one in report.rows]) == ([], ["s9"])


async def test_a_refused_appeal_lets_nothing_count(town: Town) -> None:
    await held(town)
    refused = events.AppealDecided(is_accepted=False, reason="no")
    await town.say(subjects.moderation(QUICK.id), refused)
    assert [one.row.submission for one in (await asked(town)).rows] == ["s1"]


async def test_a_released_score_must_follow_from_its_run_as_any_other(town: Town) -> None:
    await held(town, score_us=FLOOR_US / 4)
    await town.say(subjects.moderation(QUICK.id), RELEASED)
    (finding,) = (await asked(town)).findings
    assert "does not follow from its run" in finding.what
