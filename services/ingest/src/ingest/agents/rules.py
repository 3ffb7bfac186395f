"""Rules of agents and pools."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ingest.submission_history import SubmissionHistory
from shared import events
from shared.errors import Refused
from shared.event_log import Decider

SIGN_KEY_BYTES = 32
HELD = {
    events.AgentCordoned: "cordoned",
    events.AgentDrained: "drained",
    events.AgentQuarantined: "quarantined",
}

# Operators propose an event, which is recorded unless it is refused.
AgentTreatment = (
    events.AgentCordoned
    | events.AgentDrained
    | events.AgentQuarantined
    | events.AgentReleased
    | events.AgentRevoked
)
AgentCommand = events.AgentEnrolled | AgentTreatment
PoolCommand = events.PoolPaused | events.PoolResumed | events.CanaryChosen | events.CanaryRemoved
TREATMENTS: Mapping[str, type[AgentTreatment]] = {
    "cordon": events.AgentCordoned,
    "drain": events.AgentDrained,
    "quarantine": events.AgentQuarantined,
    "release": events.AgentReleased,
    "revoke": events.AgentRevoked,
}


@dataclass(frozen=True)
class Agent:
    """The state of an agent; `held` says how it is kept from work."""

    is_known: bool = False
    is_revoked: bool = False
    enrolled: tuple[str, str] | None = None
    held: frozenset[str] = frozenset()


def decide_agent(command: AgentCommand, state: Agent) -> Sequence[events.Fact]:
    """Return the event; nothing for the key that an agent has already.

    Raises `Refused` if it was done already or cannot be undone.
    """
    if state.is_revoked:
        raise Refused("wrong_state", "this agent is revoked, which is permanent")
    if isinstance(command, events.AgentEnrolled):
        _check_key(command.sign_key)
        return () if state.enrolled == (command.sign_key, command.owner) else (command,)
    if not state.is_known:
        message = "no agent with this name was ever registered or enrolled"
        raise Refused("unknown_agent", message, "agent")
    if isinstance(command, events.AgentReleased) and not state.held:
        raise Refused("wrong_state", "this agent is not cordoned, drained or quarantined")
    if (hold := HELD.get(type(command))) in state.held:
        raise Refused("wrong_state", f"this agent is already {hold}")
    return (command,)


def evolve_agent(state: Agent, fact: events.Fact) -> Agent:
    """Return the agent after one more event."""
    match fact:
        case events.AgentRegistered():
            return replace(state, is_known=True)
        case events.AgentEnrolled():
            return replace(state, is_known=True, enrolled=(fact.sign_key, fact.owner))
        case events.AgentRevoked():
            return replace(state, is_revoked=True)
        case events.AgentReleased():
            return replace(state, held=frozenset())
        case events.AgentCordoned() | events.AgentDrained() | events.AgentQuarantined():
            # The scheduler quarantines an account of the bus that never registered, too.
            return replace(state, is_known=True, held=state.held | {HELD[type(fact)]})
    return state


AGENT_DECIDER = Decider[AgentCommand, Agent, events.Fact](Agent(), decide_agent, evolve_agent)


def _check_key(sign_key: str) -> None:
    try:
        key = base64.b64decode(sign_key, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIGN_KEY_BYTES:
        message = f"an Ed25519 key is {SIGN_KEY_BYTES} bytes in base64"
        raise Refused("invalid_request", f"{sign_key[:80]!r} is not a key: {message}", "sign_key")


@dataclass(frozen=True)
class Pool:
    """The state of a pool."""

    is_paused: bool = False
    canary: events.CanaryChosen | None = None


def decide_pool(command: PoolCommand, state: Pool) -> Sequence[events.Fact]:
    """Return the event; nothing for the canary that a pool has already.

    Raises `Refused` if the pool is in that state already.
    """
    match command:
        case events.PoolPaused() if state.is_paused:
            raise Refused("wrong_state", "this pool is already paused")
        case events.PoolResumed() if not state.is_paused:
            raise Refused("wrong_state", "this pool is not paused")
        case events.CanaryRemoved() if state.canary is None:
            raise Refused("wrong_state", "this pool has no canary")
    return () if command == state.canary else (command,)


def evolve_pool(state: Pool, fact: events.Fact) -> Pool:
    """Return the pool after one more event."""
    match fact:
        case events.PoolPaused() | events.PoolResumed():
            return replace(state, is_paused=isinstance(fact, events.PoolPaused))
        case events.CanaryChosen():
            return replace(state, canary=fact)
        case events.CanaryRemoved():
            return replace(state, canary=None)
    return state


POOL_DECIDER = Decider[PoolCommand, Pool, events.Fact](Pool(), decide_pool, evolve_pool)


def choose_canary(
    gpu: str, submission: SubmissionHistory, every_s: float, ratio_max: float
) -> events.CanaryChosen:
    """Return the canary event of a submission.

    Raises `Refused` unless it passed on this GPU type.
    """
    received = submission.received
    if received.gpu != gpu:
        message = f"the submission ran on {received.gpu}, but the pool is {gpu}"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    if submission.outcome != "passed":
        raise Refused("bad_canary", "a canary must have passed: choose another", "submission")
    if (count := received.requires.count) > 1:
        message = f"a canary runs on one agent, and this submission takes {count} GPUs"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    return events.CanaryChosen(
        submission=submission.id,
        account=received.account,
        problem=received.problem,
        problem_number=received.problem_number,
        problem_digest=received.problem_digest,
        source=received.source,
        name=received.name,
        every_s=every_s,
        ratio_max=ratio_max,
    )
