"""Routes of moderation."""

from datetime import UTC
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Request

from ingest.http.requests import NameOrAccount, Number, ReasonRequest, RequestModel, Text
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.moderation.service import AppealRequest, Moderation
from shared import events
from shared.api.queues import DecisionResponse
from shared.http import DocumentedRoute
from shared.json_types import Instant


class ViolationRequest(RequestModel):
    """The rule that a submission breaks, and the reason."""

    reason: Text
    rule: Text


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

    async def author_or_operator(request: Request) -> Caller:
        """Return an operator, or a caller who may be the author of the submission's problem."""
        return await auth.participant_or_staff(request, "author", "admin:submissions")

    AuthorOrOperator: TypeAlias = Annotated[Caller, Depends(author_or_operator)]

    @router.post("/admin/submissions/{number}/hold")
    async def hold(
        number: Number, body: ViolationRequest, caller: AuthorOrOperator
    ) -> DecisionResponse:
        """Keep a submission off its leaderboard until it is reviewed.

        Authors hold ranked submissions to their own problems, operators hold any.
        """
        return decision_response(await moderation.hold(number, caller, body.rule, body.reason))

    @router.post("/admin/submissions/{number}/release")
    async def release(
        number: Number, body: ReasonRequest, caller: AuthorOrOperator
    ) -> DecisionResponse:
        """Release a held submission.

        Authors release submissions of others to their own problems, unless a moderator holds them.
        """
        return decision_response(await moderation.release(number, caller, body.reason))

    @router.post("/admin/submissions/{number}/disqualify")
    async def disqualify(
        number: Number, body: ViolationRequest, actor: Operator
    ) -> DecisionResponse:
        """Disqualify a submission."""
        command = events.SubmissionDisqualified(rule=body.rule, reason=body.reason)
        return decision_response(await moderation.judge(number, command, actor))

    @router.post("/admin/submissions/{number}/restore")
    async def restore(number: Number, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Restore a disqualified submission."""
        command = events.SubmissionRestored(reason=body.reason)
        return decision_response(await moderation.judge(number, command, actor))


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
