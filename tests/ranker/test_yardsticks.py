"""The yardstick of a leaderboard is fixed by its first good run, and all scores are in its unit."""

from dataclasses import replace
from typing import Any

import pytest

from ranker.audit.leaderboards import audit
from ranker.domain.conclusion import RunOrigin, conclude_submission
from ranker.domain.rows import LeaderboardKey
from ranker.domain.stored_log import to_stored_event
from ranker.domain.yardsticks import convert_times, own_times
from ranker.service.decisions import PendingDecision, choose_due
from shared import events, subjects
from shared.api.audits import AuditReport, AuditRequest
from shared.events import CaseResult
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import chain_events
from tests.ranker.replays import replayed
from tests.ranker.test_audit import List
from tests.ranker.test_conclusion import PASSED, STRICT
from tests.ranker.test_rejudge import AGG, Again, requested
from tests.support.lives import Life, MeasuredLife, problem, say
from tests.support.reading import Reads

server = pytest.mark.server
GOOD = MeasuredLife("good", "ada", 100.0, yardstick_us=200.0)
# The same kernel on a machine that took twice as long for everything.
SLOWER = MeasuredLife("slower", "grace", 200.0, process_us=(198.0, 202.0), yardstick_us=400.0)


class MeasuredAgain(MeasuredLife, Again):
    """A run of a rejudge, timed beside the yardstick."""


def timed(name: str = "n=1", yardstick_us: float | None = 60.0) -> CaseResult:
    return CaseResult(
        name=name,
        stage="time",
        verdict="passed",
        time_us=30.0,
        interval_us=(27.0, 33.0),
        process_us=[29.0, 31.0],
        yardstick_us=yardstick_us,
    )


def fixed_facts(reads: Reads) -> list[events.YardstickFixed]:
    facts = (event.fact for event in reads.log.since(0))
    return [fact for fact in facts if isinstance(fact, events.YardstickFixed)]


async def scores(reads: Reads) -> dict[str, float]:
    return {row["submission"]: row["score_us"] for row in await reads.board()}


async def report(reads: Reads) -> AuditReport:
    """An audit of the leaderboard, from the log alone."""
    log = chain_events(to_stored_event(event) for event in reads.log.since(0))
    return await audit(AuditRequest("identity", "CPU"), List(log), verify_verdict)


async def findings(reads: Reads) -> list[str]:
    """What an audit of the leaderboard finds in the log."""
    return [finding.what for finding in (await report(reads)).findings]


def test_all_times_of_a_case_are_converted() -> None:
    (case,) = convert_times([timed()], {"n=1": 20.0, "n=2": 1.0})
    assert (case.time_us, case.yardstick_us) == (10.0, 20.0)
    assert case.interval_us == pytest.approx((9.0, 11.0))
    assert case.process_us == pytest.approx([29 / 3, 31 / 3])


@pytest.mark.parametrize(
    ("cases", "fixed_us"),
    [
        ([timed(yardstick_us=None)], {"n=1": 20.0}),
        ([timed(), timed("n=2", None)], {"n=1": 20.0, "n=2": 20.0}),
        ([timed()], {}),
        ([timed()], {"n=2": 20.0}),
        ([timed(yardstick_us=0.0)], {"n=1": 20.0}),
        ([timed(yardstick_us=1e300)], {"n=1": 20.0}),
    ],
)
def test_what_was_not_measured_in_units_stays_as_it_is(
    cases: list[CaseResult], fixed_us: dict[str, float]
) -> None:
    assert convert_times(cases, fixed_us) == cases


def test_a_run_with_an_impossible_yardstick_was_timed_alone() -> None:
    assert own_times([timed(yardstick_us=-1.0)]) is None
    assert own_times([timed(), timed("n=2")]) == {"n=1": 60.0, "n=2": 60.0}


def test_a_stopped_run_has_a_score_and_is_never_eligible() -> None:
    stopped = "stopped after one of three processes: at best 1.23 ms, your best is 1.10 ms"
    end = conclude_submission(replace(PASSED, stopped=stopped), STRICT)
    assert (end.outcome, end.verdict, end.is_eligible) == ("passed", "passed", False)
    assert end.code == "stopped_early"
    assert end.score_us == pytest.approx(200.0)
    assert end.reason == stopped


def pending(submission: str, **verdict: Any) -> PendingDecision:
    run = replace(PASSED, run=f"run-{submission}", **verdict)
    origin = RunOrigin("agent", run.run, 1, None, None, "")
    board = LeaderboardKey("identity", "CPU", 1)
    return PendingDecision(submission, 1, run, origin, 2, board, "0" * 64)


@pytest.mark.parametrize(
    ("verdict", "at_once"),
    [
        ({"cases": [timed()]}, 1),
        ({"cases": [timed(yardstick_us=None)]}, 3),
        ({"cases": [timed()], "verdict": "wrong_answer"}, 3),
        ({"cases": [timed()], "mode": "benchmark"}, 3),
        ({"cases": [timed()], "fixed_us": {"n=1": 60.0}}, 3),
    ],
)
def test_only_runs_that_may_fix_the_yardstick_are_decided_one_at_a_time(
    verdict: dict[str, Any], at_once: int
) -> None:
    due = {(name, 1): pending(name, **verdict) for name in ("a", "b", "c")}
    assert len(choose_due(due, set())) == at_once
    assert len(choose_due(due, {("a", 1)})) == (2 if at_once == 3 else 0)


@server
async def test_the_first_good_run_fixes_the_yardstick_with_its_own_end(reads: Reads) -> None:
    await reads.ended(GOOD)
    (fact,) = fixed_facts(reads)
    assert (fact.times_us, fact.runs, fact.restated) == ({"size=1": 200.0}, ["run-good"], [])
    types = [event.envelope.type for event in reads.log.since(0)]
    at = types.index("YardstickFixed")
    assert types[at + 1] == "SubmissionFinished"


@server
async def test_later_runs_in_a_unit_of_their_own_are_converted(reads: Reads) -> None:
    await reads.ended(GOOD)
    await reads.ended(SLOWER)
    assert len(fixed_facts(reads)) == 1
    assert await scores(reads) == {"good": 100.0, "slower": pytest.approx(100.0, rel=1e-3)}
    assert await findings(reads) == []


@server
async def test_runs_that_end_together_fix_one_yardstick(reads: Reads) -> None:
    lives = [
        MeasuredLife(f"s{number}", f"p{number}", 100.0 * number, yardstick_us=200.0 * number)
        for number in range(1, 6)
    ]
    await reads.ended(*lives)
    await reads.settle()
    assert len(fixed_facts(reads)) == 1
    assert len({round(score, 6) for score in (await scores(reads)).values()}) == 1
    assert await findings(reads) == []


@server
async def test_after_three_noisy_runs_their_median_is_fixed_and_scores_are_restated(
    reads: Reads,
) -> None:
    noisy = [
        MeasuredLife(f"s{number}", f"p{number}", time_us, yardstick_us=own_us, grade="noisy")
        for number, (time_us, own_us) in enumerate([(50.0, 100.0), (200.0, 400.0), (90.0, 200.0)])
    ]
    await reads.ended(*noisy[:2])
    assert fixed_facts(reads) == []
    assert await scores(reads) == {"s0": 50.0, "s1": 200.0}
    await reads.ended(noisy[2])
    await reads.settle()
    (fact,) = fixed_facts(reads)
    assert fact.times_us == {"size=1": 200.0}
    assert {score.submission: score.score_us for score in fact.restated} == {"s0": 100, "s1": 100}
    assert await scores(reads) == {"s0": 100.0, "s1": 100.0, "s2": 90.0}
    assert await findings(reads) == []
    assert (await replayed(reads.dsn, reads.log)).differences == []
    audited = {row.submission: row for row in (await report(reads)).rows}
    assert {name: row.score_us for name, row in audited.items()} == await scores(reads)
    sentences = [reason.sentence for reason in audited["s1"].because]
    assert "the yardstick was fixed by 3 of the first runs" in sentences
    assert "its score in units of the fixed yardstick: 100.000 us" in sentences


@server
async def test_a_good_run_after_a_noisy_one_fixes_its_own_times(reads: Reads) -> None:
    await reads.ended(MeasuredLife("noisy", "ada", 90.0, yardstick_us=300.0, grade="noisy"))
    await reads.ended(MeasuredLife("good", "grace", 50.0, yardstick_us=100.0))
    await reads.settle()
    (fact,) = fixed_facts(reads)
    assert (fact.times_us, fact.runs) == ({"size=1": 100.0}, ["run-good"])
    assert await scores(reads) == {"noisy": 30.0, "good": 50.0}


@server
async def test_runs_that_were_timed_alone_keep_their_scores(reads: Reads) -> None:
    await reads.ended(Life("old", "ada", 70.0))
    assert fixed_facts(reads) == []
    await reads.ended(GOOD, SLOWER)
    await reads.settle()
    assert (await scores(reads))["old"] == 70.0
    assert await findings(reads) == []


@server
async def test_a_benchmark_fixes_nothing(reads: Reads) -> None:
    await reads.ended(MeasuredLife("b", "ada", 70.0, mode="benchmark"))
    assert fixed_facts(reads) == []


@server
async def test_a_stopped_run_is_no_entry_and_not_pooled(reads: Reads) -> None:
    await reads.ended(GOOD)
    text = "stopped after one of three processes: at best 120 us, your best is 100 us"
    same = MeasuredLife("again", "ada", 50.0, source="good", stopped=text)
    other = MeasuredLife("other", "ada", 40.0, stopped=text)
    found = await reads.ended(same, other)
    assert await scores(reads) == {"good": 100.0}
    assert {one["ranking"]["code"] for one in found} == {"stopped_early"}
    assert all(text in one["ranking"]["reason"] for one in found)
    (row,) = await reads.board()
    assert len(row["pooled_over"]) <= 1
    assert await findings(reads) == []


@server
async def test_a_rejudge_fixes_the_yardstick_of_its_version_with_its_first_item(
    reads: Reads,
) -> None:
    lives = [Life("fast", "ada", 100.0), Life("slow", "grace", 200.0)]
    await reads.ended(*lives)
    await say(reads.log, subjects.problem("identity"), problem(number=2))
    await say(reads.log, AGG, requested(lives))
    for life, own_us in zip(lives, (100.0, 1000.0), strict=True):
        again = MeasuredAgain(life.id, life.account, own_us / 2, yardstick_us=own_us, grade="noisy")
        for aggregate, fact in again.side_facts():
            await say(reads.log, aggregate, fact)
    await reads.settle()
    (fact,) = fixed_facts(reads)
    assert (fact.problem_number, fact.times_us) == (2, {"size=1": 100.0})
    await say(reads.log, AGG, events.RejudgeApplied(reason="a unit for all"))
    await reads.settle()
    assert await scores(reads) == {"fast": 50.0, "slow": 50.0}


@server
async def test_a_forged_yardstick_is_found_by_an_audit(reads: Reads) -> None:
    forged = events.YardstickFixed(
        problem="identity",
        problem_number=1,
        problem_digest="d" * 64,
        gpu="CPU",
        times_us={"size=1": 20.0},
        runs=["run-good"],
    )
    await say(reads.log, subjects.yardstick("identity", "CPU", 1), forged)
    await reads.ended(GOOD)
    assert await scores(reads) == {"good": 10.0}
    assert any("yardstick's times" in what for what in await findings(reads))


@server
async def test_every_read_tells_the_speed_up_over_the_yardstick(reads: Reads) -> None:
    await reads.ended(GOOD)
    (page,) = await reads.ended(SLOWER)
    (case,) = page["cases"]
    assert (case["time_us"], case["yardstick_us"]) == (100.0, 200.0)
    for timed in (page, case, page["results"][0]):
        assert timed["yardstick_us"] == 200.0
        assert timed["speedup"] == pytest.approx(2.0, rel=1e-3)
        low, high = timed["speedup_interval"]
        assert low < timed["speedup"] < high
    shown = await reads.get(f"submissions/{page['number']}/cases")
    assert shown[0]["estimate"]["speedup"] == pytest.approx(2.0)
    rows = await reads.board()
    assert [row["speedup"] for row in rows] == pytest.approx([2.0, 2.0], rel=1e-3)
    assert all(row["speedup_interval"] for row in rows)
    columns = (await reads.get("leaderboards/identity/CPU/cases"))["items"]
    assert [entry["cases"][0]["time_us"] for entry in columns] == [100.0, 100.0]


@server
async def test_a_score_of_a_run_that_was_timed_alone_has_no_speed_up(reads: Reads) -> None:
    await reads.ended(GOOD)
    (page,) = await reads.ended(Life("old", "grace", 70.0))
    assert (page["speedup"], page["speedup_interval"], page["yardstick_us"]) == (None, None, None)
    speedups = {row["submission"]: row["speedup"] for row in await reads.board()}
    assert speedups == {"good": 2.0, "old": None}
