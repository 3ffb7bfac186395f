"""What operators and participants may do when: each refusal is one clear error."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from ingest.agents import rules as agents
from ingest.identity.accounts import rules as accounts
from ingest.identity.accounts.rules import AccountCommand
from ingest.moderation import rules as moderation
from ingest.platform import rules as platform
from ingest.reruns import rules as reruns
from ingest.submissions import rules as submissions
from shared.errors import Refused
from shared.event_log import Decider
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
PASSED = SubmissionFinished(outcome="passed", is_eligible=True, code="ok", reason="")
HELD_AT_ONCE = SubmissionFinished(
    outcome="passed", is_eligible=True, code="ok", reason="", is_held=True
)
BAN = AccountBanned(reason=R, until_at=LATER)
HELD, OFF = SubmissionHeld(rule="r", reason=R), SubmissionDisqualified(rule="r", reason=R)
FILED = AppealFiled(text=TEXT)
CANARY = example_event(CanaryChosen)
REQUESTED, PREVIEWED = example_event(RejudgeRequested), example_event(RejudgePreviewed)

AGENTS, POOLS, CASES = agents.AGENT_DECIDER, agents.POOL_DECIDER, moderation.MODERATION_DECIDER
PEOPLE, ENDS, REJUDGES = (
    accounts.ACCOUNT_DECIDER,
    submissions.SUBMISSION_DECIDER,
    reruns.REJUDGE_DECIDER,
)


@pytest.mark.parametrize(
    ("decider", "history", "command", "fact"),
    [
        (AGENTS, [REGISTERED], AgentCordoned(reason=R), AgentCordoned(reason=R)),
        (AGENTS, [REGISTERED], AgentDrained(reason=R), AgentDrained(reason=R)),
        (
            AGENTS,
            [REGISTERED, AgentCordoned(reason=R)],
            AgentDrained(reason=R),
            AgentDrained(reason=R),
        ),
        (
            AGENTS,
            [REGISTERED, AgentDrained(reason=R)],
            AgentReleased(reason=R),
            AgentReleased(reason=R),
        ),
        (
            AGENTS,
            [REGISTERED, AgentQuarantined(reason=R, failures=3)],
            AgentReleased(reason=R),
            AgentReleased(reason=R),
        ),
        (
            AGENTS,
            [AgentQuarantined(reason=R, failures=0)],
            AgentReleased(reason=R),
            AgentReleased(reason=R),
        ),
        (AGENTS, [ENROLLED], AgentRevoked(reason=R), AgentRevoked(reason=R)),
        (AGENTS, [], AgentEnrolled(sign_key=KEY, owner="lab", reason=R), ENROLLED),
        (
            AGENTS,
            [ENROLLED],
            AgentEnrolled(sign_key=OTHER, owner="lab", reason=R),
            AgentEnrolled(sign_key=OTHER, owner="lab", reason=R),
        ),
        (POOLS, [], PoolPaused(reason=R), PoolPaused(reason=R)),
        (POOLS, [PoolPaused(reason=R)], PoolResumed(reason=R), PoolResumed(reason=R)),
        (POOLS, [], CANARY, CANARY),
        (POOLS, [CANARY], CanaryRemoved(reason=R), CanaryRemoved(reason=R)),
        (PEOPLE, [], AccountCommand(BAN, T0), BAN),
        (PEOPLE, [], AccountCommand(AccountBanned(reason=R), T0), AccountBanned(reason=R)),
        (PEOPLE, [BAN], AccountCommand(AccountUnbanned(reason=R), T0), AccountUnbanned(reason=R)),
        (PEOPLE, [BAN], AccountCommand(AccountBanned(reason=R), LATER), AccountBanned(reason=R)),
        (CASES, [], HELD, HELD),
        (CASES, [HELD], SubmissionReleased(reason=R), SubmissionReleased(reason=R)),
        (CASES, [HELD_AT_ONCE], SubmissionReleased(reason=R), SubmissionReleased(reason=R)),
        (CASES, [HELD], OFF, OFF),
        (CASES, [OFF], SubmissionRestored(reason=R), SubmissionRestored(reason=R)),
        (
            CASES,
            [HELD, OFF, SubmissionRestored(reason=R)],
            SubmissionReleased(reason=R),
            SubmissionReleased(reason=R),
        ),
        (CASES, [OFF], FILED, FILED),
        (CASES, [HELD], FILED, FILED),
        (
            CASES,
            [OFF, FILED],
            AppealDecided(is_accepted=True, reason=R),
            AppealDecided(is_accepted=True, reason=R),
        ),
        (
            CASES,
            [OFF, FILED, SubmissionRestored(reason=R)],
            AppealDecided(is_accepted=True, reason=R),
            AppealDecided(is_accepted=True, reason=R),
        ),
        (
            CASES,
            [OFF, FILED, AppealDecided(is_accepted=False, reason=R), HELD],
            FILED,
            FILED,
        ),
        (
            ENDS,
            [RECEIVED],
            SubmissionCancelRequested(reason=R),
            SubmissionCancelRequested(reason=R),
        ),
        (REJUDGES, [REQUESTED, PREVIEWED], RejudgeApplied(reason=R), RejudgeApplied(reason=R)),
        (REJUDGES, [REQUESTED], RejudgeDiscarded(reason=R), RejudgeDiscarded(reason=R)),
        (platform.INTAKE_DECIDER, [], IntakePaused(reason=R), IntakePaused(reason=R)),
        (
            platform.INTAKE_DECIDER,
            [IntakePaused(reason=R)],
            IntakeResumed(reason=R),
            IntakeResumed(reason=R),
        ),
        (
            platform.SKIP_DECIDER,
            [],
            platform.Skip(EventSkipped(projection="ranker", seq=3, reason=R), 9),
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
        (AGENTS, [], AgentCordoned(reason=R), "unknown_agent"),
        (AGENTS, [REGISTERED], AgentReleased(reason=R), "wrong_state"),
        (AGENTS, [REGISTERED, AgentCordoned(reason=R)], AgentCordoned(reason=R), "wrong_state"),
        (AGENTS, [REGISTERED, AgentDrained(reason=R)], AgentDrained(reason=R), "wrong_state"),
        (
            AGENTS,
            [REGISTERED, AgentCordoned(reason=R), AgentReleased(reason=R)],
            AgentReleased(reason=R),
            "wrong_state",
        ),
        (AGENTS, [ENROLLED, AgentRevoked(reason=R)], AgentRevoked(reason=R), "wrong_state"),
        (
            AGENTS,
            [ENROLLED, AgentRevoked(reason=R)],
            AgentEnrolled(sign_key=KEY, owner="x", reason=R),
            "wrong_state",
        ),
        (AGENTS, [], AgentEnrolled(sign_key="AAAA", owner="lab", reason=R), "invalid_request"),
        (
            AGENTS,
            [],
            AgentEnrolled(sign_key="not base64!", owner="lab", reason=R),
            "invalid_request",
        ),
        (AGENTS, [], AgentEnrolled(sign_key="ключ", owner="lab", reason=R), "invalid_request"),
        (POOLS, [PoolPaused(reason=R)], PoolPaused(reason=R), "wrong_state"),
        (POOLS, [], PoolResumed(reason=R), "wrong_state"),
        (POOLS, [CANARY, CanaryRemoved(reason=R)], CanaryRemoved(reason=R), "wrong_state"),
        (PEOPLE, [BAN], AccountCommand(AccountBanned(reason=R), T0), "wrong_state"),
        (PEOPLE, [], AccountCommand(AccountUnbanned(reason=R), T0), "wrong_state"),
        (PEOPLE, [BAN], AccountCommand(AccountUnbanned(reason=R), LATER), "wrong_state"),
        (PEOPLE, [], AccountCommand(AccountBanned(reason=R, until_at=T0), T0), "invalid_request"),
        (CASES, [HELD], HELD, "wrong_state"),
        (CASES, [OFF], HELD, "wrong_state"),
        (CASES, [PASSED], SubmissionReleased(reason=R), "wrong_state"),
        (CASES, [OFF], OFF, "wrong_state"),
        (CASES, [HELD], SubmissionRestored(reason=R), "wrong_state"),
        (CASES, [PASSED], FILED, "wrong_state"),
        (CASES, [OFF, FILED], FILED, "wrong_state"),
        (CASES, [HELD, SubmissionReleased(reason=R)], FILED, "wrong_state"),
        (
            CASES,
            [OFF, FILED, AppealDecided(is_accepted=False, reason=R)],
            FILED,
            "wrong_state",
        ),
        (CASES, [OFF], AppealDecided(is_accepted=True, reason=R), "wrong_state"),
        (ENDS, [RECEIVED, PASSED], SubmissionCancelRequested(reason=R), "already_ended"),
        (REJUDGES, [], RejudgeDiscarded(reason=R), "unknown_rejudge"),
        (REJUDGES, [REQUESTED], RejudgeApplied(reason=R), "wrong_state"),
        (
            REJUDGES,
            [REQUESTED, PREVIEWED, RejudgeApplied(reason=R)],
            RejudgeDiscarded(reason=R),
            "wrong_state",
        ),
        (
            platform.INTAKE_DECIDER,
            [IntakePaused(reason=R)],
            IntakePaused(reason=R),
            "wrong_state",
        ),
        (platform.INTAKE_DECIDER, [], IntakeResumed(reason=R), "wrong_state"),
        (
            platform.SKIP_DECIDER,
            [],
            platform.Skip(EventSkipped(projection="ranker", seq=10, reason=R), 9),
            "invalid_request",
        ),
        (
            platform.SKIP_DECIDER,
            [EventSkipped(projection="ranker", seq=3, reason=R)],
            platform.Skip(EventSkipped(projection="ranker", seq=3, reason=R), 9),
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
        (AGENTS, [ENROLLED], AgentEnrolled(sign_key=KEY, owner="lab", reason="again")),
        (POOLS, [CANARY], CANARY),
        (
            ENDS,
            [RECEIVED, SubmissionCancelRequested(reason=R)],
            SubmissionCancelRequested(reason=R),
        ),
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
    HELD,
    SubmissionReleased(reason=R),
    OFF,
    SubmissionRestored(reason=R),
    FILED,
    AppealDecided(is_accepted=True, reason=R),
    AppealDecided(is_accepted=False, reason=R),
]


@pytest.mark.feature("A7")
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
