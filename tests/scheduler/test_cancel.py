"""A cancel ends a submission wherever it is; what was taken of a quota comes back once."""

from typing import Any

import pytest

from scheduler.domain.rules import decide
from shared import events, subjects
from tests.scheduler.histories import (
    LATE,
    OFFER,
    T0,
    History,
    completed,
    given_received,
    ranked_end,
    received,
    started,
    world,
)

AGG = subjects.submission("s1")
CANCEL = events.SubmissionCancelRequested(reason="I found a bug")


def given_paid(**other: Any) -> History:
    history = History()
    taken = events.QuotaTaken(
        submission="s1", bucket="identity.CPU.ranked", cost=1, window_until_at=T0
    )
    history.say(subjects.quota("ada"), taken)
    return history.say(AGG, received(bucket="identity.CPU.ranked", cost=1, **other))


def given(state: str) -> History:
    history = given_paid()
    if state != "queued":
        history.settle(world(OFFER))
    if state in ("running", "ranking"):
        history.say(history.run_agg(), started())
    if state == "ranking":
        history.say(history.run_agg(), completed())
        history.settle(world(OFFER))
    return history


@pytest.mark.feature("N1")
@pytest.mark.parametrize(
    ("state", "appended"),
    [
        ("queued", ["SubmissionFinished", "JobCancelled"]),
        ("assigned", ["SubmissionFinished", "JobCancelled", "RunCancelled"]),
        ("running", ["SubmissionFinished", "JobCancelled", "RunCancelled"]),
    ],
)
def test_a_cancel_before_a_verdict_ends_all_that_is_open_and_pays_back(
    state: str, appended: list[str]
) -> None:
    history = given(state).say(AGG, CANCEL)
    facts = [name for name in history.settle(world(OFFER)) if name != "AgentRegistered"]
    assert facts == [*appended, "QuotaReturned"]
    (_, end), *others = history.of_type("SubmissionFinished")
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code, end.reason) == ("cancelled", "cancelled", "I found a bug")
    assert not others


def test_a_cancel_after_the_verdict_is_too_late() -> None:
    history = given("ranking").say(AGG, CANCEL)
    assert history.settle(world(OFFER)) == []
    history.say(AGG, ranked_end())
    assert history.settle(world(OFFER)) == []
    assert history.of_type("QuotaReturned") == []


def test_a_cancel_that_meets_a_verdict_loses_to_it() -> None:
    history = given("running").say(AGG, CANCEL)
    (cancel,) = list(decide(history.state, world(OFFER)))
    history.say(history.run_agg(), completed())
    assert not history.append_decision(cancel)
    assert history.settle(world(OFFER)) == []


def test_a_cancelled_agent_is_free_for_the_next() -> None:
    history = given("running")
    history.say(subjects.submission("s2"), received("bob"))
    history.settle(world(OFFER))
    history.say(AGG, CANCEL)
    assert "JobAssigned" in history.settle(world(OFFER))


@pytest.mark.parametrize("is_leased_first", [True, False])
def test_a_lease_and_a_cancel_at_the_same_moment_exclude_each_other(
    is_leased_first: bool,
) -> None:
    history = given("queued").enrol("a1").say(subjects.agent("a1"), OFFER.registration)
    (lease,) = list(decide(history.state, world(OFFER)))
    history.say(AGG, CANCEL)
    (cancel,) = list(decide(history.state, world(OFFER)))
    first, second = (lease, cancel) if is_leased_first else (cancel, lease)
    assert history.append_decision(first)
    assert not history.append_decision(second)
    history.settle(world(OFFER))
    assert history.of_type("QuotaReturned")
    assert (history.state.jobs, history.state.runs) == ({}, {})


@pytest.mark.parametrize(
    ("end", "is_returned"),
    [
        (ranked_end(), False),
        (ranked_end(outcome="infra_failed", code="bad_signature", is_eligible=False), True),
        (ranked_end(outcome="failed", is_eligible=False), False),
    ],
)
def test_whoever_ends_it_the_platforms_failure_is_paid_back_exactly_once(
    end: events.Fact, is_returned: bool
) -> None:
    history = given("ranking").say(AGG, end)
    assert history.settle(world(OFFER)) == (["QuotaReturned"] if is_returned else [])
    assert history.state.quotas == {}


def given_contestant() -> tuple[History, str]:
    """A submission of a team in the phase of a contest, and the id of the team's quotas."""
    history, key = History(), subjects.contest_quota_id("cup", "t1")
    taken = events.QuotaTaken(
        submission="s1", bucket="identity.main.ranked", cost=1, window_until_at=LATE
    )
    history.say(subjects.quota(key), taken)
    fields = {"contest": "cup", "contestant": "t1", "contest_bucket": "identity.main.ranked"}
    return history.say(AGG, received(bucket="identity.CPU.ranked", cost=1, **fields)), key


def test_what_a_contestant_took_in_a_phase_comes_back_too() -> None:
    history, key = given_contestant()
    history.say(AGG, CANCEL)
    assert history.settle(world(OFFER)).count("QuotaReturned") == 2
    returned = dict(history.of_type("QuotaReturned"))
    assert set(returned) == {subjects.quota("ada"), subjects.quota(key)}
    assert getattr(returned[subjects.quota(key)], "bucket", "") == "identity.main.ranked"
    assert (history.state.quotas, history.state.open_count) == ({}, {})


def test_a_contestant_who_saw_a_run_begin_used_their_turn() -> None:
    """Otherwise each hidden check could be tried for nothing, since its end shows at once."""
    history, _ = given_contestant()
    history.settle(world(OFFER))
    history.say(history.run_agg(), started())
    history.say(AGG, CANCEL)
    history.settle(world(OFFER))
    assert [aggregate for aggregate, _ in history.of_type("QuotaReturned")] == [
        subjects.quota("ada")
    ]
    assert (history.state.quotas, history.state.open_count) == ({}, {})


def test_two_refunds_of_one_account_are_one_batch_after_one_version() -> None:
    history = given_paid()
    history.say(subjects.submission("s2"), received(bucket="identity.CPU.ranked", cost=2))
    for number in (1, 2):
        history.say(subjects.submission(f"s{number}"), CANCEL)
    history.settle(world())
    facts = [fact for _, fact in history.of_type("QuotaReturned")]
    assert sorted(getattr(fact, "cost", 0) for fact in facts) == [1, 2]


def test_a_rival_that_paid_first_makes_a_refund_impossible() -> None:
    history = given("queued").say(AGG, CANCEL)
    (end,) = list(decide(history.state, world()))
    history.append_decision(end)
    (refund,) = list(decide(history.state, world()))
    assert history.append_decision(refund)
    assert not history.append_decision(refund)


def test_an_overdue_submission_gets_its_quota_back() -> None:
    history = given("queued")
    assert history.settle(world(now=LATE))[-1] == "QuotaReturned"


def test_a_submission_without_quota_gives_nothing_back() -> None:
    history = History().say(AGG, received()).say(AGG, CANCEL)
    assert history.settle(world()) == ["SubmissionFinished", "JobCancelled"]


def test_a_run_of_a_submission_that_ended_meanwhile_is_cancelled() -> None:
    history = given("assigned").say(AGG, ranked_end(outcome="cancelled", verdict=None))
    assert history.settle(world(OFFER)) == ["QuotaReturned", "JobCancelled", "RunCancelled"]
    assert not history.state.agents["a1"].runs


def test_a_cancel_between_a_lease_and_its_order_waits_for_the_order() -> None:
    history = given_received().enrol("a1")
    history.settle(world())
    (lease,) = [move for move in decide(history.state, world(OFFER)) if len(move) == 2]
    history.say(subjects.agent("a1"), OFFER.registration).say(AGG, CANCEL)
    history.say(lease[0].aggregate, lease[0].fact)
    assert list(decide(history.state, world(OFFER))) == []
    history.say(lease[1].aggregate, lease[1].fact)
    appended = history.settle(world(OFFER))
    assert appended == ["SubmissionFinished", "JobCancelled", "RunCancelled"]
