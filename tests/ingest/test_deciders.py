"""What operators and participants may do when: each refusal is one clear error."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from ingest import agents, platform, rejudges
from ingest.accounts import rules as accounts
from ingest.moderation import rules as moderation
from ingest.submissions import rules as submissions
from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    AccountBanned,
    AccountUnbanned,
    AgentCordoned,
    AgentDrained,
    AgentEnrolled,
    AgentQuarantined,
    AgentRegistered,
    AgentReleased,
    AgentRevoked,
    AppealDecided,
    AppealFiled,
    Blob,
    CanaryChosen,
    CanaryRemoved,
    EventSkipped,
    Fact,
    IntakePaused,
    IntakeResumed,
    PoolPaused,
    PoolResumed,
    RejudgeApplied,
    RejudgeDiscarded,
    RejudgePreviewed,
    RejudgeRequested,
    SubmissionCancelRequested,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionReceived,
    SubmissionRejected,
    SubmissionReleased,
    SubmissionRestored,
)
from tests.support.examples import example_event
from tests.support.scenarios import given

R = "because"
T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(hours=1)
KEY, OTHER = (b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
TEXT = Blob(digest="d", bytes=1)
REGISTERED = example_event(AgentRegistered)
ENROLLED = AgentEnrolled(sign_key=KEY, owner="lab", reason=R)
RECEIVED = example_event(SubmissionReceived)
REJECTED = SubmissionRejected(code="c", reason=R)
PASSED = SubmissionFinished(outcome="passed", is_eligible=True, code="ok", reason="")
HELD_AT_ONCE = SubmissionFinished(
    outcome="passed", is_eligible=True, code="ok", reason="", is_held=True
)
BAN = AccountBanned(reason=R, until_at=LATER)
HELD, OFF = SubmissionHeld(rule="r", reason=R), SubmissionDisqualified(rule="r", reason=R)
FILED = AppealFiled(text=TEXT)
CANARY = example_event(CanaryChosen)
REQUESTED, PREVIEWED = example_event(RejudgeRequested), example_event(RejudgePreviewed)

AGENTS, POOLS, CASES = agents.agents, agents.pools, moderation.moderation
PEOPLE, ENDS, REJUDGES = accounts.accounts, submissions.submissions, rejudges.rejudges


@pytest.mark.parametrize(
    ("decider", "history", "command", "fact"),
    [
        (AGENTS, [REGISTERED], agents.Cordon(R), AgentCordoned(reason=R)),
        (AGENTS, [REGISTERED], agents.Drain(R), AgentDrained(reason=R)),
        (AGENTS, [REGISTERED, AgentCordoned(reason=R)], agents.Drain(R), AgentDrained(reason=R)),
        (AGENTS, [REGISTERED, AgentDrained(reason=R)], agents.Release(R), AgentReleased(reason=R)),
        (
            AGENTS,
            [REGISTERED, AgentQuarantined(reason=R, failures=3)],
            agents.Release(R),
            AgentReleased(reason=R),
        ),
        (AGENTS, [ENROLLED], agents.Revoke(R), AgentRevoked(reason=R)),
        (AGENTS, [], agents.Enroll(KEY, "lab", R), ENROLLED),
        (
            AGENTS,
            [ENROLLED],
            agents.Enroll(OTHER, "lab", R),
            AgentEnrolled(sign_key=OTHER, owner="lab", reason=R),
        ),
        (POOLS, [], agents.Pause(R), PoolPaused(reason=R)),
        (POOLS, [PoolPaused(reason=R)], agents.Resume(R), PoolResumed(reason=R)),
        (POOLS, [], agents.ChooseCanary(CANARY), CANARY),
        (POOLS, [CANARY], agents.RemoveCanary(R), CanaryRemoved(reason=R)),
        (PEOPLE, [], accounts.Ban(R, T0, LATER), BAN),
        (PEOPLE, [], accounts.Ban(R, T0), AccountBanned(reason=R)),
        (PEOPLE, [BAN], accounts.Unban(R, T0), AccountUnbanned(reason=R)),
        (PEOPLE, [BAN], accounts.Ban(R, LATER), AccountBanned(reason=R)),
        (CASES, [], moderation.Hold("r", R), HELD),
        (CASES, [HELD], moderation.Release(R), SubmissionReleased(reason=R)),
        (CASES, [HELD_AT_ONCE], moderation.Release(R), SubmissionReleased(reason=R)),
        (CASES, [HELD], moderation.Disqualify("r", R), OFF),
        (CASES, [OFF], moderation.Restore(R), SubmissionRestored(reason=R)),
        (
            CASES,
            [HELD, OFF, SubmissionRestored(reason=R)],
            moderation.Release(R),
            SubmissionReleased(reason=R),
        ),
        (CASES, [OFF], moderation.Appeal(TEXT), FILED),
        (CASES, [HELD], moderation.Appeal(TEXT), FILED),
        (
            CASES,
            [OFF, FILED],
            moderation.DecideAppeal(True, R),
            AppealDecided(is_accepted=True, reason=R),
        ),
        (
            CASES,
            [OFF, FILED, SubmissionRestored(reason=R)],
            moderation.DecideAppeal(True, R),
            AppealDecided(is_accepted=True, reason=R),
        ),
        (
            CASES,
            [OFF, FILED, AppealDecided(is_accepted=False, reason=R), HELD],
            moderation.Appeal(TEXT),
            FILED,
        ),
        (ENDS, [RECEIVED], submissions.Cancel(R), SubmissionCancelRequested(reason=R)),
        (REJUDGES, [REQUESTED, PREVIEWED], rejudges.Apply(R), RejudgeApplied(reason=R)),
        (REJUDGES, [REQUESTED], rejudges.Discard(R), RejudgeDiscarded(reason=R)),
        (submissions.intake, [], submissions.PauseIntake(R), IntakePaused(reason=R)),
        (
            submissions.intake,
            [IntakePaused(reason=R)],
            submissions.ResumeIntake(R),
            IntakeResumed(reason=R),
        ),
        (
            platform.skips,
            [],
            platform.Skip("ranker", 3, 9, R),
            EventSkipped(projection="ranker", seq=3, reason=R),
        ),
    ],
)
def test_valid_decisions_are_recorded(
    decider: Decider[Any, Any, Fact], history: Sequence[Fact], command: Any, fact: Fact
) -> None:
    given(decider, *history).when(command).then(fact)


@pytest.mark.parametrize(
    ("decider", "history", "command", "code"),
    [
        (AGENTS, [], agents.Cordon(R), "unknown_agent"),
        (AGENTS, [REGISTERED], agents.Release(R), "wrong_state"),
        (AGENTS, [REGISTERED, AgentCordoned(reason=R)], agents.Cordon(R), "wrong_state"),
        (AGENTS, [REGISTERED, AgentDrained(reason=R)], agents.Drain(R), "wrong_state"),
        (
            AGENTS,
            [REGISTERED, AgentCordoned(reason=R), AgentReleased(reason=R)],
            agents.Release(R),
            "wrong_state",
        ),
        (AGENTS, [ENROLLED, AgentRevoked(reason=R)], agents.Revoke(R), "wrong_state"),
        (AGENTS, [ENROLLED, AgentRevoked(reason=R)], agents.Enroll(KEY, "x", R), "wrong_state"),
        (AGENTS, [], agents.Enroll("AAAA", "lab", R), "invalid_request"),
        (AGENTS, [], agents.Enroll("not base64!", "lab", R), "invalid_request"),
        (AGENTS, [], agents.Enroll("ключ", "lab", R), "invalid_request"),
        (POOLS, [PoolPaused(reason=R)], agents.Pause(R), "wrong_state"),
        (POOLS, [], agents.Resume(R), "wrong_state"),
        (POOLS, [CANARY, CanaryRemoved(reason=R)], agents.RemoveCanary(R), "wrong_state"),
        (PEOPLE, [BAN], accounts.Ban(R, T0), "wrong_state"),
        (PEOPLE, [], accounts.Unban(R, T0), "wrong_state"),
        (PEOPLE, [BAN], accounts.Unban(R, LATER), "wrong_state"),
        (PEOPLE, [], accounts.Ban(R, T0, T0), "invalid_request"),
        (CASES, [HELD], moderation.Hold("r", R), "wrong_state"),
        (CASES, [OFF], moderation.Hold("r", R), "wrong_state"),
        (CASES, [PASSED], moderation.Release(R), "wrong_state"),
        (CASES, [OFF], moderation.Disqualify("r", R), "wrong_state"),
        (CASES, [HELD], moderation.Restore(R), "wrong_state"),
        (CASES, [PASSED], moderation.Appeal(TEXT), "wrong_state"),
        (CASES, [OFF, FILED], moderation.Appeal(TEXT), "wrong_state"),
        (CASES, [HELD, SubmissionReleased(reason=R)], moderation.Appeal(TEXT), "wrong_state"),
        (
            CASES,
            [OFF, FILED, AppealDecided(is_accepted=False, reason=R)],
            moderation.Appeal(TEXT),
            "wrong_state",
        ),
        (CASES, [OFF], moderation.DecideAppeal(True, R), "wrong_state"),
        (ENDS, [RECEIVED, PASSED], submissions.Cancel(R), "already_ended"),
        (ENDS, [RECEIVED, REJECTED], submissions.Cancel(R), "already_ended"),
        (REJUDGES, [], rejudges.Discard(R), "unknown_rejudge"),
        (REJUDGES, [REQUESTED], rejudges.Apply(R), "wrong_state"),
        (
            REJUDGES,
            [REQUESTED, PREVIEWED, RejudgeApplied(reason=R)],
            rejudges.Discard(R),
            "wrong_state",
        ),
        (
            submissions.intake,
            [IntakePaused(reason=R)],
            submissions.PauseIntake(R),
            "wrong_state",
        ),
        (submissions.intake, [], submissions.ResumeIntake(R), "wrong_state"),
        (platform.skips, [], platform.Skip("ranker", 10, 9, R), "invalid_request"),
        (
            platform.skips,
            [EventSkipped(projection="ranker", seq=3, reason=R)],
            platform.Skip("ranker", 3, 9, R),
            "wrong_state",
        ),
    ],
)
def test_invalid_decisions_are_refused(
    decider: Decider[Any, Any, Fact], history: Sequence[Fact], command: Any, code: str
) -> None:
    given(decider, *history).when(command).then_refused(code)


@pytest.mark.parametrize(
    ("decider", "history", "command"),
    [
        (AGENTS, [ENROLLED], agents.Enroll(KEY, "lab", "again")),
        (POOLS, [CANARY], agents.ChooseCanary(CANARY)),
        (ENDS, [RECEIVED, SubmissionCancelRequested(reason=R)], submissions.Cancel(R)),
    ],
)
def test_a_repeated_withdrawal_is_recorded_once(
    decider: Decider[Any, Any, Fact], history: Sequence[Fact], command: Any
) -> None:
    given(decider, *history).when(command).then()


def test_an_accepted_appeal_lifts_the_decision() -> None:
    state = CASES.fold([OFF, FILED, AppealDecided(is_accepted=True, reason=R)])
    assert state == moderation.ModerationState(appeal="decided")


VERBS: list[moderation.ModerationCommand] = [
    moderation.Hold("r", R),
    moderation.Release(R),
    moderation.Disqualify("r", R),
    moderation.Restore(R),
    moderation.Appeal(TEXT),
    moderation.DecideAppeal(True, R),
    moderation.DecideAppeal(False, R),
]


@every(st.lists(st.sampled_from(VERBS), max_size=30))
def test_no_order_of_decisions_leaves_an_invalid_state(
    commands: list[moderation.ModerationCommand],
) -> None:
    state, filed, decided = CASES.initial, 0, 0
    for command in commands:
        try:
            facts = CASES.decide(command, state)
        except Refused:
            continue
        for fact in facts:
            state = CASES.evolve(state, fact)
            filed += isinstance(fact, AppealFiled)
            decided += isinstance(fact, AppealDecided)
    assert filed - decided == (state.appeal == "open")
