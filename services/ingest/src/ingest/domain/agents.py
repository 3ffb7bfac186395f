"""Agents, as operators treat them: enrolled, cordoned, drained, released, revoked."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    AgentCordoned,
    AgentDrained,
    AgentEnrolled,
    AgentQuarantined,
    AgentRegistered,
    AgentReleased,
    AgentRevoked,
    Fact,
)

SIGN_KEY_BYTES = 32
HELD = {AgentCordoned: "cordoned", AgentDrained: "drained", AgentQuarantined: "quarantined"}


@dataclass(frozen=True)
class Agent:
    """An agent as its history tells it; `held` says how it is kept from work."""

    is_known: bool = False
    is_revoked: bool = False
    enrolled: tuple[str, str] | None = None
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Enroll:
    """Let an agent sign with this key."""

    sign_key: str
    owner: str
    reason: str


@dataclass(frozen=True)
class Cordon:
    """Give an agent canaries alone."""

    reason: str


@dataclass(frozen=True)
class Drain:
    """Give an agent nothing more."""

    reason: str


@dataclass(frozen=True)
class Release:
    """Let an agent work again."""

    reason: str


@dataclass(frozen=True)
class Revoke:
    """Let an agent work and sign no more, for ever."""

    reason: str


AgentCommand = Enroll | Cordon | Drain | Release | Revoke


def decide(command: AgentCommand, state: Agent) -> Sequence[Fact]:
    """What is done to an agent. Errors: Refused if it is done already, or cannot be undone."""
    if state.is_revoked:
        raise Refused("wrong_state", "this agent was revoked, and that is for ever")
    if isinstance(command, Enroll):
        return _enrolled(command, state)
    if not state.is_known:
        raise Refused("unknown_agent", "no such agent ever registered or was enrolled", "agent")
    match command:
        case Cordon(reason):
            return (_held(AgentCordoned(reason=reason), state),)
        case Drain(reason):
            return (_held(AgentDrained(reason=reason), state),)
        case Revoke(reason):
            return (AgentRevoked(reason=reason),)
    if not state.held:
        raise Refused("wrong_state", "this agent is not cordoned, drained or quarantined")
    return (AgentReleased(reason=command.reason),)


def evolve(state: Agent, fact: Fact) -> Agent:
    """What an agent is after one more event."""
    match fact:
        case AgentRegistered():
            return replace(state, is_known=True)
        case AgentEnrolled():
            return replace(state, is_known=True, enrolled=(fact.sign_key, fact.owner))
        case AgentRevoked():
            return replace(state, is_revoked=True)
        case AgentReleased():
            return replace(state, held=frozenset())
        case AgentCordoned() | AgentDrained() | AgentQuarantined():
            return replace(state, held=state.held | {HELD[type(fact)]})
    return state


agents = Decider[AgentCommand, Agent, Fact](Agent(), decide, evolve)


def _enrolled(command: Enroll, state: Agent) -> Sequence[Fact]:
    """The new key; nothing if it is the one that the agent has."""
    try:
        key = base64.b64decode(command.sign_key, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIGN_KEY_BYTES:
        what = f"an Ed25519 key is {SIGN_KEY_BYTES} bytes in base64"
        raise Refused("invalid_request", f"{command.sign_key[:80]!r} is no key: {what}", "sign_key")
    if state.enrolled == (command.sign_key, command.owner):
        return ()
    return (AgentEnrolled(sign_key=command.sign_key, owner=command.owner, reason=command.reason),)


def _held(fact: AgentCordoned | AgentDrained, state: Agent) -> Fact:
    word = HELD[type(fact)]
    if word in state.held:
        raise Refused("wrong_state", f"this agent is {word} already")
    return fact
