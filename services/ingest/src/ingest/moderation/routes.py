"""Operators' routes for submissions and participants, and appeals against bans."""

from datetime import UTC
from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from ingest.access.callers import Caller
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    NameInPath,
    NumberInPath,
    ReasonRequest,
    RequestModel,
    Text,
    decision_response,
)
from ingest.moderation import rules
from ingest.moderation.service import Moderation
from ingest.submissions.routes import AppealRequest
from shared.api.platform import DecisionResponse
from shared.errors import Refused
from shared.json_types import Instant
from shared.response_types import DocumentedRoute

BUCKET_LENGTH_MAX = 200


class JudgementRequest(RequestModel):
    """The reason, and the rule; a hold and a disqualification need a rule."""

    reason: Text
    rule: Text | None = None


class AppealDecisionRequest(RequestModel):
    """Whether an appeal is accepted, and why."""

    is_accepted: bool
    reason: Text


class BanRequest(RequestModel):
    """Why a participant is banned, and until when; for ever without `until_at`."""

    reason: Text
    until_at: Instant | None = None


def moderation_router(moderation: Moderation, auth: Authenticator) -> APIRouter:
    """The routes, for operators; banned participants may appeal."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    _submissions(router, moderation, auth)
    _participants(router, moderation, auth)
    return router


def _submissions(router: APIRouter, commands: Moderation, auth: Authenticator) -> None:
    operator = auth.operator("admin:submissions")

    @router.post("/admin/submissions/{number}/decide-appeal")
    async def decide_appeal(
        number: NumberInPath, body: AppealDecisionRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Answer an appeal; accepting it lifts the hold or disqualification."""
        command = rules.DecideAppeal(body.is_accepted, body.reason)
        return decision_response(await commands.judge(number, command, actor))

    @router.post("/admin/submissions/{number}/{act}")
    async def judge(
        number: NumberInPath,
        act: Literal["hold", "release", "disqualify", "restore"],
        body: JudgementRequest,
        actor: Annotated[str, Depends(operator)],
    ) -> DecisionResponse:
        """Hold, release, disqualify or restore a submission."""
        return decision_response(await commands.judge(number, _judgement(act, body), actor))


def _judgement(act: str, body: JudgementRequest) -> rules.Judgement:
    if act == "release":
        return rules.Release(body.reason)
    if act == "restore":
        return rules.Restore(body.reason)
    if body.rule is None:
        raise Refused("invalid_request", f"rule: name the rule by which you {act}", "rule")
    return (rules.Hold if act == "hold" else rules.Disqualify)(body.rule, body.reason)


def _participants(router: APIRouter, commands: Moderation, auth: Authenticator) -> None:
    operator = auth.operator("admin:participants")

    @router.post("/admin/participants/{name}/ban")
    async def ban(
        name: NameInPath, body: BanRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Ban a participant, until a time or for ever."""
        until = body.until_at.astimezone(UTC) if body.until_at else None
        return decision_response(await commands.ban(name, body.reason, until, actor))

    @router.post("/admin/participants/{name}/unban")
    async def unban(
        name: NameInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Lift a ban."""
        return decision_response(await commands.unban(name, body.reason, actor))

    @router.post("/me/appeal", status_code=201)
    async def appeal(
        body: AppealRequest, caller: Annotated[Caller, Depends(auth.participant())]
    ) -> DecisionResponse:
        """Appeal against one's own ban, once."""
        return decision_response(await commands.appeal_ban(caller, body.text))

    @router.post("/admin/participants/{name}/decide-appeal")
    async def decide(
        name: NameInPath, body: AppealDecisionRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Answer an appeal against a ban; accepting it lifts the ban."""
        return decision_response(
            await commands.answer_ban_appeal(name, body.is_accepted, body.reason, actor)
        )
