"""Why a row of a leaderboard is where it is: the events that made it, a sentence each."""

from pathlib import Path

import pytest

from ranker.audit.auditing import Question, audit
from ranker.domain.report import Report
from shared import events, subjects
from shared.signing import verify
from tests.ranker.audited import Town
from tests.ranker.test_audit import List
from tests.support.lives import AGENT, T0, Life, registration

ADA = Life("s1", time_us=100.0)


@pytest.fixture
async def town(tmp_path: Path) -> Town:
    town = await Town(tmp_path).found()
    await town.live(ADA, Life("s2", account="grace", time_us=50.0))
    return town


async def asked(town: Town) -> Report:
    return await audit(Question("identity", "CPU"), List(town.rows()), verify)


async def test_the_other_runs_of_a_pooled_source_are_among_the_reasons(town: Town) -> None:
    lives = [
        Life("s3", account="ada", source="x", time_us=10.0),
        Life("s4", account="ada", source="x", time_us=20.0),
    ]
    await town.live(*lives)
    report = await asked(town)
    row = next(one for one in report.rows if one.row.account == "ada")
    runs = [one for one in row.reasons if one.type == "RunCompleted"]
    assert (len(row.row.pooled_over), len(runs)) == (2, 2)


async def test_the_code_that_judged_a_run_is_told_with_it(tmp_path: Path) -> None:
    town, code = await Town(tmp_path).found(), "c" * 64
    await town.say(subjects.agent(AGENT), registration(code))
    await town.live(Life("s1", harness_code=code))
    report = await asked(town)
    runs = [one for row in report.rows for one in row.reasons if one.type == "RunCompleted"]
    said = "the run ended passed with 1 cases, by harness code cccccccccccc"
    assert {one.sentence for one in runs} == {said}


async def test_whatever_was_decided_about_a_row_is_among_its_reasons(town: Town) -> None:
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
    said = [
        (subjects.moderation("s1"), events.SubmissionHeld(rule="clock", reason="odd")),
        (subjects.moderation("s1"), events.SubmissionReleased(reason="looked")),
        (subjects.moderation("s1"), events.AppealDecided(is_accepted=True, reason="right")),
        (subjects.account("ada"), events.AccountBanned(reason="rude", until_at=T0)),
        (subjects.rejudge("r1"), requested),
        (subjects.rejudge("r1"), events.RejudgeJudged(submission="s1", result=again)),
        (subjects.rejudge("r1"), events.RejudgeApplied(reason="mended")),
    ]
    for agg, fact in said:
        await town.say(agg, fact, "operator:op")
    rows = {one.row.account: one for one in (await asked(town)).rows}
    sentences = [one.sentence for one in rows["ada"].reasons if one.actor == "operator:op"]
    assert sentences == [
        "it is kept off by the rule 'clock': odd",
        "it was released: looked",
        "the appeal was accepted: right",
        f"the participant stands on no leaderboard until {T0.isoformat()}: rude",
        "judged again: it may be ranked: 9.000 us",
        "the rejudge counts: mended",
    ]
    assert rows["ada"].row.score_us == 9.0
