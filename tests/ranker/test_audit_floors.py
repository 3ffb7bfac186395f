"""Audits of runs that are held with a score, counted or released by an operator."""

from pathlib import Path

import pytest

from ranker.domain.goals import BELOW_FLOOR, POLICY_REVIEW
from shared import events, subjects
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_audit import run_audit
from tests.support.lives import ROOF, DoubtedLife, Life

FLOOR_US = ROOF.floors_us[""]
QUICK = Life("s9", time_us=FLOOR_US / 2)
RELEASED = events.SubmissionReleased(reason="a better way")


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(Life("s1"))
    return platform


async def held(platform: AuditPlatform, score_us: float | None = None) -> None:
    """Append the quick run and its hold, as ranker decides it."""
    await platform.run(QUICK)
    await platform.end(QUICK, score_us, BELOW_FLOOR)


async def test_what_counts_under_a_floor_is_found(platform: AuditPlatform) -> None:
    await platform.live(QUICK)
    report = await run_audit(platform)
    (finding,) = report.findings
    assert finding.what.endswith("is under a floor")


async def test_what_is_held_under_a_floor_is_no_row_and_no_finding(platform: AuditPlatform) -> None:
    await held(platform)
    report = await run_audit(platform)
    assert (report.findings, [row.submission for row in report.rows]) == ([], ["s1"])


@pytest.mark.parametrize(
    "facts",
    [
        (RELEASED,),
        (events.AppealDecided(is_accepted=True, reason="fine"),),
        (events.SubmissionHeld(rule="r", reason=""), RELEASED),
    ],
)
async def test_what_was_released_counts_from_then_on(
    platform: AuditPlatform, facts: tuple[events.Fact, ...]
) -> None:
    await held(platform)
    for fact in facts:
        await platform.say(subjects.moderation(QUICK.id), fact)
    report = await run_audit(platform)
    assert (report.findings, [row.submission for row in report.rows]) == ([], ["s9"])


async def test_a_refused_appeal_lets_nothing_count(platform: AuditPlatform) -> None:
    await held(platform)
    refused = events.AppealDecided(is_accepted=False, reason="no")
    await platform.say(subjects.moderation(QUICK.id), refused)
    assert [row.submission for row in (await run_audit(platform)).rows] == ["s1"]


async def test_a_released_score_must_follow_from_its_run_as_any_other(
    platform: AuditPlatform,
) -> None:
    await held(platform, score_us=FLOOR_US / 4)
    await platform.say(subjects.moderation(QUICK.id), RELEASED)
    (finding,) = (await run_audit(platform)).findings
    assert "does not follow from its run" in finding.what


async def test_what_counts_with_doubts_is_found(platform: AuditPlatform) -> None:
    await platform.live(DoubtedLife("s9"))
    (finding,) = (await run_audit(platform)).findings
    assert finding.what.endswith("needed a review")


async def test_what_is_held_with_doubts_counts_once_it_is_released(
    platform: AuditPlatform,
) -> None:
    life = DoubtedLife("s9", time_us=50.0)
    await platform.run(life)
    await platform.end(life, code=POLICY_REVIEW)
    report = await run_audit(platform)
    assert (report.findings, [row.submission for row in report.rows]) == ([], ["s1"])
    await platform.say(subjects.moderation(life.id), RELEASED)
    report = await run_audit(platform)
    assert (report.findings, [row.submission for row in report.rows]) == ([], ["s9"])
