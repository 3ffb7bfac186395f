"""Agents and pools: their rules, and how operators manage them."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.decisions import Decisions
from ingest.histories import load_submission
from ingest.http.bodies import ReasonRequest, RequestModel, decision_response
from ingest.http.fields import IdInPath, Text, Token
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import Ports
from shared import events, subjects
from shared.api.queues import DecisionResponse
from shared.errors import Refused
from shared.event_log import Decider
from shared.http import DocumentedRoute
from shared.json_types import JsonInt

SIGN_KEY_LENGTH_MAX = 64
EVERY_S_MIN, EVERY_S_MAX = 10, 30 * 86400
RATIO_MAX = 100
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


agents = Decider[AgentCommand, Agent, events.Fact](Agent(), decide_agent, evolve_agent)


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


pools = Decider[PoolCommand, Pool, events.Fact](Pool(), decide_pool, evolve_pool)


class EnrollmentRequest(RequestModel):
    """The key an agent will sign with, in base64, and the owner of its machine."""

    sign_key: Annotated[str, Field(min_length=1, max_length=SIGN_KEY_LENGTH_MAX)]
    owner: Token
    reason: Text


class CanaryRequest(RequestModel):
    """The submission that runs on every agent, how often, and which ratio is too slow."""

    submission: Annotated[JsonInt, Field(ge=1)]
    every_s: Annotated[float, Field(ge=EVERY_S_MIN, le=EVERY_S_MAX)]
    ratio_max: Annotated[float, Field(gt=1, le=RATIO_MAX)]


def choose_canary(
    gpu: str, request: CanaryRequest, submission: str, history: Iterable[events.Fact]
) -> events.CanaryChosen:
    """Return the canary event of a submission.

    Raises `Refused` unless it passed on this GPU type.
    """
    facts = list(history)
    received = next(fact for fact in facts if isinstance(fact, events.SubmissionReceived))
    ends = [fact for fact in facts if isinstance(fact, events.SubmissionFinished)]
    if received.gpu != gpu:
        message = f"the submission ran on {received.gpu}, but the pool is {gpu}"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    if not (ends and ends[-1].outcome == "passed"):
        raise Refused("bad_canary", "a canary must have passed: choose another", "submission")
    if (count := received.requires.count) > 1:
        message = f"a canary runs on one agent, and this submission takes {count} GPUs"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    return events.CanaryChosen(
        submission=submission,
        account=received.account,
        problem=received.problem,
        problem_number=received.problem_number,
        problem_digest=received.problem_digest,
        source=received.source,
        name=received.name,
        every_s=request.every_s,
        ratio_max=request.ratio_max,
    )


def agents_router(ports: Ports, decisions: Decisions, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:operate"))]

    async def make_pool(gpu: str, command: PoolCommand, actor: str) -> DecisionResponse:
        return decision_response(await decisions.make(subjects.pool(gpu), pools, command, actor))

    @router.post("/agents/{agent}/enroll")
    async def enroll(agent: IdInPath, body: EnrollmentRequest, actor: Operator) -> DecisionResponse:
        """Accept signatures of an agent with a key; a later key replaces it."""
        command = events.AgentEnrolled(**body.model_dump())
        agg = subjects.agent(agent)
        return decision_response(await decisions.make(agg, agents, command, actor))

    @router.post("/agents/{agent}/{act}")
    async def treat(
        agent: IdInPath,
        act: Literal["cordon", "drain", "quarantine", "release", "revoke"],
        body: ReasonRequest,
        actor: Operator,
    ) -> DecisionResponse:
        """Cordon, drain, quarantine, release or revoke an agent."""
        command, agg = TREATMENTS[act](reason=body.reason), subjects.agent(agent)
        return decision_response(await decisions.make(agg, agents, command, actor))

    # No `{act}` here: it would also match POST .../canary.
    @router.post("/pools/{gpu}/pause")
    async def pause(gpu: IdInPath, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Stop assigning jobs of a GPU type."""
        return await make_pool(gpu, events.PoolPaused(reason=body.reason), actor)

    @router.post("/pools/{gpu}/resume")
    async def resume(gpu: IdInPath, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Assign jobs of a GPU type again."""
        return await make_pool(gpu, events.PoolResumed(reason=body.reason), actor)

    @router.put("/pools/{gpu}/canary")
    async def choose(gpu: IdInPath, body: CanaryRequest, actor: Operator) -> DecisionResponse:
        """Run a submission on every agent of a pool, repeatedly."""
        submission = await load_submission(ports, body.submission)
        return await make_pool(
            gpu, choose_canary(gpu, body, submission.id, submission.facts), actor
        )

    @router.delete("/pools/{gpu}/canary")
    async def remove(gpu: IdInPath, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Stop running the canary."""
        return await make_pool(gpu, events.CanaryRemoved(reason=body.reason), actor)

    return router
