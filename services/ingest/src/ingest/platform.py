"""Operating the platform: intake, projections, dead letters, and a record of manual actions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.accounts.service import AccountTables
from ingest.decisions import CommandContext, DecisionResult, Decisions, http_append
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    IdInPath,
    NumberInPath,
    ReasonRequest,
    RequestModel,
    Text,
    decision_response,
)
from ingest.ports import Ports
from ingest.submissions import rules
from ingest.submissions import rules as submissions
from ingest.submissions.intake import PLATFORM
from shared import subjects
from shared.api import platform as api
from shared.api.platform import DecisionResponse
from shared.bus import DeadLetter, redrive_event
from shared.decider import Decider
from shared.errors import Refused
from shared.events import EventSkipped, Fact, OperatorActed
from shared.json_types import JsonInt
from shared.response_types import DocumentedRoute
from shared.wire import decode_fact

Skipped = frozenset[tuple[str, int]]

PROJECTIONS = "projections"
OPERATORS = "operators"

SWITCHES: Mapping[str, Callable[[str], rules.PauseIntake | rules.ResumeIntake]] = {
    "pause": rules.PauseIntake,
    "resume": rules.ResumeIntake,
}


@dataclass(frozen=True)
class Skip:
    """Let a projection skip an event; `last` is the end of the log."""

    projection: str
    seq: int
    last: int
    reason: str


def decide_skip(command: Skip, state: Skipped) -> Sequence[Fact]:
    """Return the permission to skip. Raises `Refused` for a second one or a future event."""
    if command.seq > command.last:
        message = f"the log ends at {command.last}: there is no event {command.seq}"
        raise Refused("invalid_request", message, "seq")
    if (command.projection, command.seq) in state:
        raise Refused("wrong_state", f"{command.projection} already skips {command.seq}")
    return (EventSkipped(projection=command.projection, seq=command.seq, reason=command.reason),)


def evolve_skip(state: Skipped, fact: Fact) -> Skipped:
    """Return the skipped events after one more event."""
    return state | {(fact.projection, fact.seq)} if isinstance(fact, EventSkipped) else state


skips = Decider[Skip, Skipped, Fact](frozenset(), decide_skip, evolve_skip)


@dataclass(frozen=True)
class Operators:
    """The commands that operate the platform."""

    ports: Ports
    decisions: Decisions

    async def intake(
        self, command: submissions.PauseIntake | submissions.ResumeIntake, operator: str
    ) -> DecisionResult:
        """Pause or resume intake. Raises `Refused` and `Failed`."""
        agg, by = subjects.audit(PLATFORM), CommandContext(operator, PLATFORM)
        return await self.decisions.make(agg, submissions.intake, command, by)

    async def skip(self, projection: str, seq: int, reason: str, operator: str) -> DecisionResult:
        """Let a projection skip an event. Raises `Refused` and `Failed`."""
        command = Skip(projection, seq, await self.ports.log.last(), reason)
        agg, by = subjects.audit(PROJECTIONS), CommandContext(operator, projection)
        return await self.decisions.make(agg, skips, command, by)

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """Return the events that consumers gave up, oldest first. Raises `Failed`."""
        return await self.ports.dead_letters.list()

    async def redrive(self, consumer: str, seq: int, reason: str, operator: str) -> DecisionResult:
        """Deliver a dead letter to its consumer again. Raises `Refused` and `Failed`."""
        dead_letters = await self.ports.dead_letters.list()
        dead_letter = next(
            (
                candidate
                for candidate in dead_letters
                if (candidate.consumer, candidate.seq) == (consumer, seq)
            ),
            None,
        )
        if dead_letter is None:
            message = f"{consumer} has no dead letter {seq}: GET /v1/admin/deadletters lists them"
            raise Refused("unknown_dead_letter", message, "seq")
        new = redrive_event(dead_letter, reason, operator, self.decisions.clock())
        return DecisionResult(await self.ports.log.append(new), [decode_fact(new.envelope)])

    async def record_action(
        self, command: str, target: str, reason: str, operator: str
    ) -> DecisionResult:
        """Record an action that an operator reports. Raises `Failed`."""
        fact = OperatorActed(command=command, target=target, reason=reason)
        # Records are independent: none depends on the version of the one before.
        append = http_append(subjects.audit(OPERATORS), fact, None, OPERATORS)
        return DecisionResult(await self.decisions.append(operator, append), [fact])


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
    _switches(router, operators, auth)
    _dead_letters(router, operators, auth)
    _account_tables(router, account_tables, auth)
    return router


def _account_tables(router: APIRouter, commands: AccountTables, auth: Authenticator) -> None:
    admin = auth.operator("admin")

    @router.post("/accounts/adopt")
    async def adopt(body: ReasonRequest, actor: Annotated[str, Depends(admin)]) -> DecisionResponse:
        """Allow new names after the tables of accounts were lost and not restored."""
        return decision_response(await commands.adopt(body.reason, actor))


def _switches(router: APIRouter, commands: Operators, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    @router.post("/intake/{act}")
    async def intake(
        act: Literal["pause", "resume"],
        body: ReasonRequest,
        actor: Annotated[str, Depends(operator)],
    ) -> DecisionResponse:
        """Pause or resume intake of submissions."""
        return decision_response(await commands.intake(SWITCHES[act](body.reason), actor))

    @router.post("/projections/{name}/skip")
    async def skip(
        name: IdInPath, body: SkipRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Let a projection skip an event that it cannot fold."""
        return decision_response(await commands.skip(name, body.seq, body.reason, actor))

    @router.post("/acted", status_code=201)
    async def acted(
        body: OperatorActionRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Record an action of an operator that has no event of its own."""
        return decision_response(
            await commands.record_action(body.command, body.target, body.reason, actor)
        )


def _dead_letters(router: APIRouter, commands: Operators, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    @router.get("/deadletters", dependencies=[Depends(operator)])
    async def dead_letters() -> api.DeadLetters:
        """The events that consumers gave up, oldest first."""
        dead_letters = await commands.dead_letters()
        return api.DeadLetters(
            items=[api.DeadLetter(**dead_letter._asdict()) for dead_letter in dead_letters]
        )

    @router.post("/deadletters/{consumer}/{seq}/redrive")
    async def redrive(
        consumer: IdInPath,
        seq: NumberInPath,
        body: ReasonRequest,
        actor: Annotated[str, Depends(operator)],
    ) -> DecisionResponse:
        """Deliver a dead letter to its consumer again."""
        return decision_response(await commands.redrive(consumer, seq, body.reason, actor))
