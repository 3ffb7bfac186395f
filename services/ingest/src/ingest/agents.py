"""Agents and pools: their rules, and how operators manage them."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.decisions import CommandContext, DecisionResult, Decisions
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    IdInPath,
    ReasonRequest,
    RequestModel,
    Text,
    Token,
    decision_response,
)
from ingest.ports import Ports
from ingest.submissions.service import load_submission
from shared import subjects
from shared.api.platform import DecisionResponse
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
    CanaryChosen,
    CanaryRemoved,
    Fact,
    PoolPaused,
    PoolResumed,
    SubmissionFinished,
    SubmissionReceived,
)
from shared.json_types import JsonInt
from shared.response_types import DocumentedRoute

SIGN_KEY_LENGTH_MAX = 64
EVERY_S_MIN, EVERY_S_MAX = 10, 30 * 86400
RATIO_MAX = 100
SIGN_KEY_BYTES = 32
HELD = {AgentCordoned: "cordoned", AgentDrained: "drained", AgentQuarantined: "quarantined"}


@dataclass(frozen=True)
class Agent:
    """The state of an agent; `held` says how it is kept from work."""

    is_known: bool = False
    is_revoked: bool = False
    enrolled: tuple[str, str] | None = None
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Enroll:
    """Accept signatures of an agent with this key."""

    sign_key: str
    owner: str
    reason: str


@dataclass(frozen=True)
class Cordon:
    """Give an agent canary jobs only."""

    reason: str


@dataclass(frozen=True)
class Drain:
    """Give an agent no more jobs."""

    reason: str


@dataclass(frozen=True)
class Release:
    """Let an agent take jobs again."""

    reason: str


@dataclass(frozen=True)
class Revoke:
    """Revoke an agent for ever: no more jobs, no more signatures."""

    reason: str


AgentCommand = Enroll | Cordon | Drain | Release | Revoke


def decide_agent(command: AgentCommand, state: Agent) -> Sequence[Fact]:
    """Return the event of a command.

    Raises `Refused` if it was done already or cannot be undone.
    """
    if state.is_revoked:
        raise Refused("wrong_state", "this agent is revoked, which is permanent")
    if isinstance(command, Enroll):
        return _decide_enrollment(command, state)
    if not state.is_known:
        raise Refused(
            "unknown_agent", "no agent with this name was ever registered or enrolled", "agent"
        )
    match command:
        case Cordon(reason):
            return (_check_not_held(AgentCordoned(reason=reason), state),)
        case Drain(reason):
            return (_check_not_held(AgentDrained(reason=reason), state),)
        case Revoke(reason):
            return (AgentRevoked(reason=reason),)
    if not state.held:
        raise Refused("wrong_state", "this agent is not cordoned, drained or quarantined")
    return (AgentReleased(reason=command.reason),)


def evolve_agent(state: Agent, fact: Fact) -> Agent:
    """Return the agent after one more event."""
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


agents = Decider[AgentCommand, Agent, Fact](Agent(), decide_agent, evolve_agent)


def _decide_enrollment(command: Enroll, state: Agent) -> Sequence[Fact]:
    """Return the new key, or nothing if the agent has it already."""
    try:
        key = base64.b64decode(command.sign_key, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIGN_KEY_BYTES:
        message = f"an Ed25519 key is {SIGN_KEY_BYTES} bytes in base64"
        raise Refused(
            "invalid_request", f"{command.sign_key[:80]!r} is not a key: {message}", "sign_key"
        )
    if state.enrolled == (command.sign_key, command.owner):
        return ()
    return (AgentEnrolled(sign_key=command.sign_key, owner=command.owner, reason=command.reason),)


def _check_not_held(fact: AgentCordoned | AgentDrained, state: Agent) -> Fact:
    hold = HELD[type(fact)]
    if hold in state.held:
        raise Refused("wrong_state", f"this agent is already {hold}")
    return fact


@dataclass(frozen=True)
class Pool:
    """The state of a pool."""

    is_paused: bool = False
    canary: CanaryChosen | None = None


@dataclass(frozen=True)
class Pause:
    """Stop assigning jobs of this GPU type."""

    reason: str


@dataclass(frozen=True)
class Resume:
    """Assign jobs of this GPU type again."""

    reason: str


@dataclass(frozen=True)
class ChooseCanary:
    """Run this submission on every agent of the pool, repeatedly."""

    canary: CanaryChosen


@dataclass(frozen=True)
class RemoveCanary:
    """Stop running the canary."""

    reason: str


PoolCommand = Pause | Resume | ChooseCanary | RemoveCanary


def decide_pool(command: PoolCommand, state: Pool) -> Sequence[Fact]:
    """Return the event. Raises `Refused` if the pool is in that state already."""
    match command:
        case Pause(reason):
            if state.is_paused:
                raise Refused("wrong_state", "this pool is already paused")
            return (PoolPaused(reason=reason),)
        case Resume(reason):
            if not state.is_paused:
                raise Refused("wrong_state", "this pool is not paused")
            return (PoolResumed(reason=reason),)
        case RemoveCanary(reason):
            if state.canary is None:
                raise Refused("wrong_state", "this pool has no canary")
            return (CanaryRemoved(reason=reason),)
    return () if command.canary == state.canary else (command.canary,)


def evolve_pool(state: Pool, fact: Fact) -> Pool:
    """Return the pool after one more event."""
    match fact:
        case PoolPaused():
            return replace(state, is_paused=True)
        case PoolResumed():
            return replace(state, is_paused=False)
        case CanaryChosen():
            return replace(state, canary=fact)
        case CanaryRemoved():
            return replace(state, canary=None)
    return state


pools = Decider[PoolCommand, Pool, Fact](Pool(), decide_pool, evolve_pool)


@dataclass(frozen=True)
class Canary:
    """A canary that an operator requests."""

    gpu: str
    every_s: float
    ratio_max: float


def canary(request: Canary, submission: str, history: Iterable[Fact]) -> CanaryChosen:
    """Return the canary event of a submission.

    Raises `Refused` unless it passed on this GPU type.
    """
    facts = list(history)
    received = next(fact for fact in facts if isinstance(fact, SubmissionReceived))
    ends = [fact for fact in facts if isinstance(fact, SubmissionFinished)]
    if received.gpu != request.gpu:
        message = f"the submission ran on {received.gpu}, but the pool is {request.gpu}"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    if not (ends and ends[-1].outcome == "passed"):
        raise Refused("bad_canary", "a canary must have passed: choose another", "submission")
    if (count := received.requires.count) > 1:
        message = f"a canary runs on one agent, and this submission takes {count} GPUs"
        raise Refused("bad_canary", f"{message}: choose another", "submission")
    return CanaryChosen(
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


TREATMENTS: Mapping[str, Callable[[str], AgentCommand]] = {
    "cordon": Cordon,
    "drain": Drain,
    "release": Release,
    "revoke": Revoke,
}


@dataclass(frozen=True)
class Agents:
    """Manages agents and pools."""

    ports: Ports
    decisions: Decisions

    async def decide_agent(
        self, agent: str, command: AgentCommand, operator: str
    ) -> DecisionResult:
        """Enroll, cordon, drain, release or revoke an agent. Raises `Refused` and `Failed`."""
        agg = subjects.agent(agent)
        return await self.decisions.make(agg, agents, command, CommandContext(operator, agent))

    async def decide_pool(self, gpu: str, command: PoolCommand, operator: str) -> DecisionResult:
        """Pause or resume a pool, or remove its canary. Raises `Refused` and `Failed`."""
        agg = subjects.pool(gpu)
        return await self.decisions.make(agg, pools, command, CommandContext(operator, gpu))

    async def canary(self, number: int, request: Canary, operator: str) -> DecisionResult:
        """Make a submission the canary of a pool. Raises `Refused` and `Failed`."""
        submission = await load_submission(self.ports, number)
        canary_event = canary(request, submission.id, submission.facts)
        return await self.decide_pool(request.gpu, ChooseCanary(canary_event), operator)


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


def agents_router(agents: Agents, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _agents(router, agents, auth)
    _pools(router, agents, auth)
    return router


def _agents(router: APIRouter, commands: Agents, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    @router.post("/agents/{agent}/enroll")
    async def enroll(
        agent: IdInPath, body: EnrollmentRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Accept signatures of an agent with a key; a later key replaces it."""
        command = Enroll(body.sign_key, body.owner, body.reason)
        return decision_response(await commands.decide_agent(agent, command, actor))

    @router.post("/agents/{agent}/{act}")
    async def treat(
        agent: IdInPath,
        act: Literal["cordon", "drain", "release", "revoke"],
        body: ReasonRequest,
        actor: Annotated[str, Depends(operator)],
    ) -> DecisionResponse:
        """Cordon, drain, release or revoke an agent."""
        return decision_response(
            await commands.decide_agent(agent, TREATMENTS[act](body.reason), actor)
        )


def _pools(router: APIRouter, commands: Agents, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    # No `{act}` here: it would also match POST .../canary.
    @router.post("/pools/{gpu}/pause")
    async def pause(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Stop assigning jobs of a GPU type."""
        return decision_response(await commands.decide_pool(gpu, Pause(body.reason), actor))

    @router.post("/pools/{gpu}/resume")
    async def resume(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Assign jobs of a GPU type again."""
        return decision_response(await commands.decide_pool(gpu, Resume(body.reason), actor))

    @router.put("/pools/{gpu}/canary")
    async def choose(
        gpu: IdInPath, body: CanaryRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Run a submission on every agent of a pool, repeatedly."""
        canary = Canary(gpu, body.every_s, body.ratio_max)
        return decision_response(await commands.canary(body.submission, canary, actor))

    @router.delete("/pools/{gpu}/canary")
    async def remove(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Stop running the canary."""
        return decision_response(await commands.decide_pool(gpu, RemoveCanary(body.reason), actor))
