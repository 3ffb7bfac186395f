"""The reasons of a leaderboard's rows: the events that made them, one sentence each."""

from pathlib import Path

import pytest

from ranker.audit.leaderboards import audit
from shared import events, subjects
from shared.api.audits import AuditReport, AuditRequest
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_audit import List
from tests.support.lives import AGENT, T0, Life, registration

ADA = Life("s1", time_us=100.0)


@pytest.fixture
async def platform(tmp_path: Path) -> AuditPlatform:
    platform = await AuditPlatform(tmp_path).found()
    await platform.live(ADA, Life("s2", account="grace", time_us=50.0))
    return platform


async def run_audit(platform: AuditPlatform) -> AuditReport:
    return await audit(AuditRequest("identity", "CPU"), List(platform.rows()), verify_verdict)


async def test_the_other_runs_of_a_pooled_source_are_among_the_reasons(
    platform: AuditPlatform,
) -> None:
    lives = [
        Life("s3", account="ada", source="x", time_us=10.0),
        Life("s4", account="ada", source="x", time_us=20.0),
    ]
    await platform.live(*lives)
    report = await run_audit(platform)
    row = next(item for item in report.rows if item.account == "ada")
    runs = [reason for reason in row.because if reason.type == "RunCompleted"]
    assert (len(row.pooled_over), len(runs)) == (2, 2)


@pytest.mark.feature("D8")
async def test_the_code_that_judged_a_run_is_told_with_it(tmp_path: Path) -> None:
    platform, code = await AuditPlatform(tmp_path).found(), "c" * 64
    await platform.say(subjects.agent(AGENT), registration(code))
    await platform.live(Life("s1", harness_code=code))
    report = await run_audit(platform)
    runs = [
        reason for row in report.rows for reason in row.because if reason.type == "RunCompleted"
    ]
    sentence = "the run ended passed with 1 cases, by harness code cccccccccccc"
    assert {run.sentence for run in runs} == {sentence}


async def test_whatever_was_decided_about_a_row_is_among_its_reasons(
    platform: AuditPlatform,
) -> None:
    again = events.SubmissionFinished(
        outcome="passed", is_eligible=True, code="ranked", reason="", score_us=9.0, run="run-s1"
    )
    item = events.RejudgeItem(
        submission="s1", account="ada", gpu="CPU", source=ADA.blob, name="kernel.py"
    )
    requested = events.RejudgeRequested(
        problem="identity",
        from_number=1,
        to_number=1,
        to_digest="d",
        select="all",
        reason="",
        items=[item],
    )
    decisions = [
        (subjects.moderation("s1"), events.SubmissionHeld(rule="clock", reason="odd")),
        (subjects.moderation("s1"), events.SubmissionReleased(reason="looked")),
        (subjects.moderation("s1"), events.AppealDecided(is_accepted=True, reason="right")),
        (subjects.account("ada"), events.AccountBanned(reason="rude", until_at=T0)),
        (subjects.rejudge("r1"), requested),
        (subjects.rejudge("r1"), events.RejudgeJudged(submission="s1", result=again)),
        (subjects.rejudge("r1"), events.RejudgeApplied(reason="fixed")),
    ]
    for aggregate, fact in decisions:
        await platform.say(aggregate, fact, "operator:op")
    rows = {row.account: row for row in (await run_audit(platform)).rows}
    sentences = [reason.sentence for reason in rows["ada"].because if reason.actor == "operator:op"]
    assert sentences == [
        "it is kept off by the rule 'clock': odd",
        "it was released: looked",
        "the appeal was accepted: right",
        f"the participant stands on no leaderboard until {T0.isoformat()}: rude",
        "judged again: it may be ranked: 9.000 us",
        "the rejudge counts: fixed",
    ]
    assert rows["ada"].score_us == 9.0
