"""Orders carry the fixed times of the yardstick, and the score that a ranked run has to beat."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from scheduler.domain import fold
from shared import events, subjects
from shared.events import Blob
from tests.scheduler.histories import (
    OFFER,
    T0,
    History,
    completed,
    ranked_end,
    received,
    started,
    world,
)

TIMES_US = {"n=1": 100.0, "n=2": 400.0}
FIXED = events.YardstickFixed(
    problem="identity",
    problem_number=1,
    problem_digest="d",
    gpu="CPU",
    times_us=TIMES_US,
    runs=["r0"],
)


def fix_yardstick(history: History, **other: Any) -> None:
    fact = msgspec.structs.replace(FIXED, **other)
    history.say(subjects.yardstick(fact.problem, fact.gpu, fact.problem_number), fact)


def submit(history: History, id_: str, source: str = "x", **other: Any) -> events.JobAssigned:
    """Submit, let the agent start it, and return its order."""
    source_blob = Blob(digest=source, bytes=1)
    history.say(subjects.submission(id_), received(source=source_blob, **other))
    history.settle(world(OFFER))
    _, order = history.of_type("JobAssigned")[-1]
    assert isinstance(order, events.JobAssigned)
    assert order.submission == id_
    return order


def finish(history: History, id_: str, **end: Any) -> None:
    """End the run that is open, and its submission."""
    history.say(history.run_agg(), started())
    history.say(history.run_agg(), completed())
    history.say(subjects.submission(id_), ranked_end(**{"yardstick_us": 200.0} | end))
    history.settle(world(OFFER))


def given_best(score_us: float = 100.0, source: str = "first") -> History:
    history = History()
    submit(history, "s1", source)
    finish(history, "s1", score_us=score_us)
    return history


def test_orders_carry_the_fixed_times_of_their_version_and_gpu_type() -> None:
    history = History()
    assert submit(history, "s1").yardstick_us == {}
    finish(history, "s1")
    fix_yardstick(history)
    assert submit(history, "s2").yardstick_us == TIMES_US
    finish(history, "s2")
    assert submit(history, "s3", mode="benchmark").yardstick_us == TIMES_US
    finish(history, "s3")
    assert submit(history, "s4", mode="test").yardstick_us == {}
    finish(history, "s4")
    assert submit(history, "s5", problem_digest="another version").yardstick_us == {}


def test_the_first_fixed_times_stay() -> None:
    history = History()
    fix_yardstick(history)
    fix_yardstick(history, times_us={"n=1": 1.0, "n=2": 1.0})
    assert submit(history, "s1").yardstick_us == TIMES_US


def test_a_ranked_run_has_to_beat_the_participants_own_best() -> None:
    history = given_best(100.0)
    assert submit(history, "s2", "second").best_us == 100.0
    finish(history, "s2", score_us=90.0)
    assert submit(history, "s3", "third").best_us == 90.0
    finish(history, "s3", score_us=95.0)
    assert submit(history, "s4", "fourth").best_us == 90.0


@pytest.mark.parametrize(
    "other",
    [
        {"account": "grace"},
        {"problem_digest": "another version"},
        {"mode": "benchmark"},
        {"baseline": "naive", "account": "platform:baseline", "class_": "rejudge"},
    ],
)
def test_nothing_else_has_to_beat_it(other: dict[str, Any]) -> None:
    history = given_best()
    history.say(subjects.submission("s2"), received(source=Blob(digest="y", bytes=1), **other))
    history.settle(world(OFFER, now=T0 + timedelta(seconds=60)))
    _, order = history.of_type("JobAssigned")[-1]
    assert isinstance(order, events.JobAssigned)
    assert (order.submission, order.best_us) == ("s2", 0.0)


def test_a_further_run_of_the_best_source_runs_to_its_end_and_is_pooled() -> None:
    history = given_best(100.0, "first")
    assert submit(history, "s2", "first").best_us == 0.0
    finish(history, "s2", score_us=120.0)
    # The pooled score is at most that of the slower run.
    assert submit(history, "s3", "second").best_us == 120.0


def test_a_variant_of_the_best_source_runs_to_its_end_too() -> None:
    history = History()
    submit(history, "s1", "first", normal_digest="n")
    finish(history, "s1", score_us=100.0)
    assert submit(history, "s2", "with a comment", normal_digest="n").best_us == 0.0
    finish(history, "s2", score_us=120.0)
    assert submit(history, "s3", "third", normal_digest="m").best_us == 120.0


def test_a_run_that_is_not_eligible_is_nobodys_best() -> None:
    history = given_best(100.0)
    submit(history, "s2", "second")
    finish(history, "s2", score_us=50.0, is_eligible=False, code="stopped_early")
    assert submit(history, "s3", "third").best_us == 100.0


def test_a_best_that_was_timed_alone_need_not_be_beaten() -> None:
    history = History()
    submit(history, "s1", "first")
    finish(history, "s1", score_us=100.0, yardstick_us=None)
    assert submit(history, "s2", "second").best_us == 0.0


@pytest.mark.parametrize(
    "fact",
    [
        events.SubmissionHeld(rule="r", reason="look"),
        events.SubmissionDisqualified(rule="r", reason="a cheat"),
        events.SubmissionWithdrawn(reason="my own"),
    ],
)
def test_a_submission_that_no_longer_counts_need_not_be_beaten(fact: events.Fact) -> None:
    history = given_best()
    history.say(subjects.moderation("s1"), fact)
    assert submit(history, "s2", "second").best_us == 0.0


def test_an_applied_rejudge_forgets_the_best_scores() -> None:
    history = given_best()
    history.say(subjects.rejudge("j1"), events.RejudgeApplied(reason="new times"))
    assert submit(history, "s2", "second").best_us == 0.0


def test_a_restated_best_is_compared_in_the_new_unit() -> None:
    history = given_best(100.0)
    restated = events.RestatedScore(
        submission="s1",
        run="r1",
        score_us=50.0,
        yardstick_us=200.0,
        interval_us=(49.0, 51.0),
        process_us=[50.0],
        error=0.01,
        freedom=2,
        delta=0.003,
    )
    fix_yardstick(history, restated=[restated])
    assert submit(history, "s2", "second").best_us == 50.0


def test_the_best_scores_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BESTS_MAX", 2)
    history = History()
    for account in ("ada", "grace", "edsger"):
        submit(history, account, account=account)
        finish(history, account, score_us=100.0)
    assert [key.rpartition(" ")[2] for key in history.state.bests] == ["grace", "edsger"]
