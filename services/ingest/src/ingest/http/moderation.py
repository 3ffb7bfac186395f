"""Operators' routes for submissions, participants and their quotas."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.domain import moderation as rules
from ingest.domain import quotas
from ingest.http import shapes
from ingest.http.bodies import Body, NameInPath, NumberInPath, Text, Why, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.moderators import Moderators
from shared.answers import Documented
from shared.errors import Refused
from shared.instants import Instant
from shared.whole import Whole

BUCKET_LENGTH_MAX = 200


class Judgement(Body):
    """Why, and by which rule; a hold and a disqualification name one."""

    reason: Text
    rule: Text | None = None


class AppealAnswer(Body):
    """Whether an appeal is accepted, and why."""

    is_accepted: bool
    reason: Text


class BanWhy(Body):
    """Why a participant is kept out, and until when; for ever if it is not said."""

    reason: Text
    until_at: Instant | None = None


class QuotaLimit(Body):
    """A limit of a participant, or of everybody; null as the limit lifts it."""

    participant: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] | None = None
    bucket: Annotated[str, Field(max_length=BUCKET_LENGTH_MAX)]
    limit: Annotated[Whole, Field(ge=0, le=quotas.LIMIT_MAX)] | None
    window_s: Annotated[float, Field(ge=quotas.WINDOW_S_MIN, le=quotas.WINDOW_S_MAX)]
    reason: Text


def moderation(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for operators alone."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    _submissions(router, ingest.moderators, gate)
    _participants(router, ingest.moderators, gate)
    return router


def _submissions(router: APIRouter, commands: Moderators, gate: Gate) -> None:
    operator = gate.operator("admin:submissions")

    @router.post("/submissions/{number}/decide-appeal")
    async def decide_appeal(
        number: NumberInPath, body: AppealAnswer, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Answer an appeal; an accepted one lifts what it is against."""
        command = rules.DecideAppeal(body.is_accepted, body.reason)
        return shown(await commands.judge(number, command, actor))

    @router.post("/submissions/{number}/{act}")
    async def judge(
        number: NumberInPath,
        act: Literal["hold", "release", "disqualify", "restore"],
        body: Judgement,
        actor: Annotated[str, Depends(operator)],
    ) -> shapes.Made:
        """Keep a submission off its leaderboard, or let it back."""
        return shown(await commands.judge(number, _judgement(act, body), actor))


def _judgement(act: str, body: Judgement) -> rules.Judgement:
    if act == "release":
        return rules.Release(body.reason)
    if act == "restore":
        return rules.Restore(body.reason)
    if body.rule is None:
        raise Refused("invalid_request", f"rule: by which rule do you {act}? Name it", "rule")
    return (rules.Hold if act == "hold" else rules.Disqualify)(body.rule, body.reason)


def _participants(router: APIRouter, commands: Moderators, gate: Gate) -> None:
    operator = gate.operator("admin:participants")

    @router.post("/participants/{name}/ban")
    async def ban(
        name: NameInPath, body: BanWhy, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Keep a participant out, until then or for ever."""
        until = _utc(body.until_at) if body.until_at else None
        return shown(await commands.ban(name, body.reason, until, actor))

    @router.post("/participants/{name}/unban")
    async def unban(
        name: NameInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Let a participant in again."""
        return shown(await commands.unban(name, body.reason, actor))

    @router.put("/quota")
    async def limit(body: QuotaLimit, actor: Annotated[str, Depends(operator)]) -> shapes.Made:
        """Limit what a participant may take in a window, or everybody."""
        most = quotas.UNLIMITED if body.limit is None else body.limit
        command = quotas.SetLimit(body.bucket, most, body.window_s, body.reason)
        return shown(await commands.limit(body.participant, command, actor))


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
