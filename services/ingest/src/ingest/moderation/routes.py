"""Routes of moderation."""

from datetime import UTC
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends

from ingest.http.requests import NameOrAccount, Number, ReasonRequest, RequestModel, Text
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.moderation import rules
from ingest.moderation.service import AppealRequest, Moderation
from shared import events
from shared.api.queues import DecisionResponse
from shared.errors import Refused
from shared.http import DocumentedRoute
from shared.json_types import Instant


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


def _submissions(router: APIRouter, moderation: Moderation, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:submissions"))]

    @router.post("/admin/submissions/{number}/decide-appeal")
    async def decide_appeal(
        number: Number, body: AppealDecisionRequest, actor: Operator
    ) -> DecisionResponse:
        """Answer an appeal; accepting it lifts the hold or disqualification."""
        command = events.AppealDecided(is_accepted=body.is_accepted, reason=body.reason)
        return decision_response(await moderation.judge(number, command, actor))

    @router.post("/admin/submissions/{number}/{act}")
    async def judge(
        number: Number,
        act: Literal["hold", "release", "disqualify", "restore"],
        body: JudgementRequest,
        actor: Operator,
    ) -> DecisionResponse:
        """Hold, release, disqualify or restore a submission."""
        return decision_response(await moderation.judge(number, _judgement(act, body), actor))


def _judgement(act: str, body: JudgementRequest) -> rules.Judgement:
    if act == "release":
        return events.SubmissionReleased(reason=body.reason)
    if act == "restore":
        return events.SubmissionRestored(reason=body.reason)
    if body.rule is None:
        raise Refused("invalid_request", f"rule: name the rule by which you {act}", "rule")
    event_type = events.SubmissionHeld if act == "hold" else events.SubmissionDisqualified
    return event_type(rule=body.rule, reason=body.reason)


def _participants(router: APIRouter, moderation: Moderation, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:participants"))]

    @router.post("/admin/participants/{name}/ban")
    async def ban(name: NameOrAccount, body: BanRequest, actor: Operator) -> DecisionResponse:
        """Ban a participant, until a time or for ever."""
        until = body.until_at.astimezone(UTC) if body.until_at else None
        return decision_response(await moderation.ban(name, body.reason, until, actor))

    @router.post("/admin/participants/{name}/unban")
    async def unban(name: NameOrAccount, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Lift a ban."""
        return decision_response(await moderation.unban(name, body.reason, actor))

    @router.post("/me/appeal", status_code=201)
    async def appeal(
        body: AppealRequest, caller: Annotated[Caller, Depends(auth.participant())]
    ) -> DecisionResponse:
        """Appeal against one's own ban, once."""
        return decision_response(await moderation.appeal_ban(caller, body.text))

    @router.post("/admin/participants/{name}/decide-appeal")
    async def decide(
        name: NameOrAccount, body: AppealDecisionRequest, actor: Operator
    ) -> DecisionResponse:
        """Answer an appeal against a ban; accepting it lifts the ban."""
        answer = events.BanAppealDecided(is_accepted=body.is_accepted, reason=body.reason)
        return decision_response(await moderation.answer_ban_appeal(name, answer, actor))
