"""Operating the platform: intake, projections, dead letters, and a record of manual actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.decisions import DecisionResult, Decisions
from ingest.http.bodies import ReasonRequest, RequestModel, decision_response
from ingest.http.fields import IdInPath, NumberInPath, Text
from ingest.identity.accounts.service import AccountTables
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import Ports
from ingest.submissions import rules as submissions
from ingest.submissions.intake import PLATFORM
from shared import subjects
from shared.api import queues as api
from shared.api.queues import DecisionResponse
from shared.bus import redrive_event
from shared.errors import Refused
from shared.event_log import Decider
from shared.events import EventSkipped, Fact, IntakePaused, IntakeResumed, OperatorActed
from shared.http import DocumentedRoute
from shared.json_types import JsonInt
from shared.wire import decode_fact

Skipped = frozenset[tuple[str, int]]

PROJECTIONS = "projections"
OPERATORS = "operators"


class Skip(NamedTuple):
    """Let a projection skip an event; `last` is the end of the log."""

    event: EventSkipped
    last: int


def decide_skip(command: Skip, state: Skipped) -> Sequence[Fact]:
    """Return the permission to skip. Raises `Refused` for a second one or a future event."""
    skip = command.event
    if skip.seq > command.last:
        message = f"the log ends at {command.last}: there is no event {skip.seq}"
        raise Refused("invalid_request", message, "seq")
    if (skip.projection, skip.seq) in state:
        raise Refused("wrong_state", f"{skip.projection} already skips {skip.seq}")
    return (skip,)


def evolve_skip(state: Skipped, fact: Fact) -> Skipped:
    """Return the skipped events after one more event."""
    return state | {(fact.projection, fact.seq)} if isinstance(fact, EventSkipped) else state


skips = Decider[Skip, Skipped, Fact](frozenset(), decide_skip, evolve_skip)


@dataclass(frozen=True)
class Operators:
    """The commands that operate the platform."""

    ports: Ports
    decisions: Decisions

    async def intake(self, command: submissions.IntakeCommand, operator: str) -> DecisionResult:
        """Pause or resume intake. Raises `Refused` and `Failed`."""
        agg = subjects.audit(PLATFORM)
        return await self.decisions.make(agg, submissions.intake, command, operator)

    async def redrive(self, consumer: str, seq: int, reason: str, operator: str) -> DecisionResult:
        """Deliver a dead letter to its consumer again. Raises `Refused` and `Failed`."""
        for dead_letter in await self.ports.dead_letters.list():
            if (dead_letter.consumer, dead_letter.seq) == (consumer, seq):
                event = redrive_event(dead_letter, reason, operator, self.decisions.clock())
                seq = await self.ports.log.append(event)
                return DecisionResult(seq, [decode_fact(event.envelope)])
        message = f"{consumer} has no dead letter {seq}: GET /v1/admin/deadletters lists them"
        raise Refused("unknown_dead_letter", message, "seq")

    async def record_action(
        self, command: str, target: str, reason: str, operator: str
    ) -> DecisionResult:
        """Record an action that an operator reports. Raises `Failed`."""
        fact = OperatorActed(command=command, target=target, reason=reason)
        # Records are independent: none depends on the version of the one before.
        return await self.decisions.record(subjects.audit(OPERATORS), fact, operator, None)


class SkipRequest(RequestModel):
    """The event that a projection skips, and why."""

    seq: Annotated[JsonInt, Field(ge=1)]
    reason: Text


class OperatorActionRequest(RequestModel):
    """What an operator did, to what, and why."""

    command: Text
    target: Text
    reason: Text


def platform_router(
    operators: Operators, account_tables: AccountTables, auth: Authenticator
) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    operator = auth.operator("admin:operate")
    Operator: TypeAlias = Annotated[str, Depends(operator)]

    @router.post("/intake/{act}")
    async def intake(
        act: Literal["pause", "resume"], body: ReasonRequest, actor: Operator
    ) -> DecisionResponse:
        """Pause or resume intake of submissions."""
        command = (IntakePaused if act == "pause" else IntakeResumed)(reason=body.reason)
        return decision_response(await operators.intake(command, actor))

    @router.post("/projections/{name}/skip")
    async def skip(name: IdInPath, body: SkipRequest, actor: Operator) -> DecisionResponse:
        """Let a projection skip an event that it cannot fold."""
        event = EventSkipped(projection=name, seq=body.seq, reason=body.reason)
        command = Skip(event, await operators.ports.log.last())
        agg = subjects.audit(PROJECTIONS)
        return decision_response(await operators.decisions.make(agg, skips, command, actor, name))

    @router.post("/acted", status_code=201)
    async def acted(body: OperatorActionRequest, actor: Operator) -> DecisionResponse:
        """Record an action of an operator that has no event of its own."""
        return decision_response(
            await operators.record_action(body.command, body.target, body.reason, actor)
        )

    @router.get("/deadletters", dependencies=[Depends(operator)])
    async def dead_letters() -> api.DeadLetters:
        """The events that consumers gave up, oldest first."""
        dead_letters = await operators.ports.dead_letters.list()
        return api.DeadLetters(
            items=[api.DeadLetter(**dead_letter._asdict()) for dead_letter in dead_letters]
        )

    @router.post("/deadletters/{consumer}/{seq}/redrive")
    async def redrive(
        consumer: IdInPath, seq: NumberInPath, body: ReasonRequest, actor: Operator
    ) -> DecisionResponse:
        """Deliver a dead letter to its consumer again."""
        return decision_response(await operators.redrive(consumer, seq, body.reason, actor))

    @router.post("/accounts/adopt")
    async def adopt(
        body: ReasonRequest, actor: Annotated[str, Depends(auth.operator("admin"))]
    ) -> DecisionResponse:
        """Allow new names after the tables of accounts were lost and not restored."""
        return decision_response(await account_tables.adopt(body.reason, actor))

    return router
