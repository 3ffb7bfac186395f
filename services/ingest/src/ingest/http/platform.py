"""Operators' routes for the platform itself."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.domain import platform as rules
from ingest.http import shapes
from ingest.http.bodies import Body, IdInPath, NumberInPath, Text, Why, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.account_tables import AccountTables
from ingest.service.operators import Operators
from shared.answers import Documented
from shared.deadletters import DeadLetter
from shared.whole import Whole

SWITCHES: Mapping[str, Callable[[str], rules.PauseIntake | rules.ResumeIntake]] = {
    "pause": rules.PauseIntake,
    "resume": rules.ResumeIntake,
}


class SkipWhy(Body):
    """Which event a projection goes on without, and why."""

    seq: Annotated[Whole, Field(ge=1)]
    reason: Text


class Deed(Body):
    """What an operator did, to what, and why."""

    command: Text
    target: Text
    reason: Text


def platform(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for operators alone."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    _switches(router, ingest.operators, gate)
    _dead_letters(router, ingest.operators, gate)
    _account_tables(router, ingest.account_tables, gate)
    return router


def _account_tables(router: APIRouter, commands: AccountTables, gate: Gate) -> None:
    admin = gate.operator("admin")

    @router.post("/accounts/adopt")
    async def adopt(body: Why, actor: Annotated[str, Depends(admin)]) -> shapes.Made:
        """Let names be given anew after the tables of accounts were lost and not restored."""
        return shown(await commands.adopt(body.reason, actor))


def _switches(router: APIRouter, commands: Operators, gate: Gate) -> None:
    operator = gate.operator("admin:operate")

    @router.post("/intake/{act}")
    async def intake(
        act: Literal["pause", "resume"], body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Take no submission in, or take them in again."""
        return shown(await commands.intake(SWITCHES[act](body.reason), actor))

    @router.post("/projections/{name}/skip")
    async def skip(
        name: IdInPath, body: SkipWhy, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Let a projection go on without an event that it cannot fold."""
        return shown(await commands.skip(name, body.seq, body.reason, actor))

    @router.post("/acted", status_code=201)
    async def acted(body: Deed, actor: Annotated[str, Depends(operator)]) -> shapes.Made:
        """Keep what an operator did that has no event of its own."""
        return shown(await commands.acted(body.command, body.target, body.reason, actor))


def _dead_letters(router: APIRouter, commands: Operators, gate: Gate) -> None:
    operator = gate.operator("admin:operate")

    @router.get("/deadletters", dependencies=[Depends(operator)])
    async def dead_letters() -> shapes.DeadLetters:
        """The events that consumers gave up, oldest first."""
        letters = await commands.dead_letters()
        return {"items": [_shown(one) for one in letters]}

    @router.post("/deadletters/{consumer}/{seq}/redrive")
    async def redrive(
        consumer: IdInPath, seq: NumberInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Hand an event to the consumer that gave it up once more."""
        return shown(await commands.redrive(consumer, seq, body.reason, actor))


def _shown(letter: DeadLetter) -> shapes.DeadLetter:
    said = letter._asdict() | {"at": letter.at.isoformat()}
    return cast("shapes.DeadLetter", said)
