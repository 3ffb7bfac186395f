"""Routes of operators about the platform."""

from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.http.requests import Id, Number, ReasonRequest, RequestModel, Text
from ingest.http.responses import decision_response
from ingest.identity.accounts.service import AccountTables
from ingest.identity.http.authenticator import Authenticator
from ingest.platform.service import Operators
from shared.api import queues as api
from shared.api.queues import DecisionResponse
from shared.events import EventSkipped, IntakePaused, IntakeResumed
from shared.http import DocumentedRoute
from shared.json_types import JsonInt


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
    async def skip(name: Id, body: SkipRequest, actor: Operator) -> DecisionResponse:
        """Let a projection skip an event that it cannot fold."""
        event = EventSkipped(projection=name, seq=body.seq, reason=body.reason)
        return decision_response(await operators.skip(event, actor))

    @router.post("/acted", status_code=201)
    async def acted(body: OperatorActionRequest, actor: Operator) -> DecisionResponse:
        """Record an action of an operator that has no event of its own."""
        return decision_response(
            await operators.decisions.record_action(body.command, body.target, body.reason, actor)
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
        consumer: Id, seq: Number, body: ReasonRequest, actor: Operator
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
