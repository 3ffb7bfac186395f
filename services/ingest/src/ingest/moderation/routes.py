"""Moderation of submissions and participants by operators, and appeals against bans."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends
from msgspec import structs

from ingest.access.feed import AccessFeed
from ingest.access.rules import Caller
from ingest.accounts import rules as accounts
from ingest.accounts.service import decide_account
from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.http.requests import (
    Authenticator,
    NameInPath,
    NumberInPath,
    ReasonRequest,
    RequestModel,
    Text,
    decision_response,
)
from ingest.moderation import rules
from ingest.ports import Ports, resolve_account
from ingest.submissions.routes import (
    TEXT_MEDIA,
    AppealRequest,
    load_submission,
    moderation_command,
)
from shared import events, subjects
from shared.api.accounts import BanAppeal
from shared.api.queues import DecisionResponse
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Refused
from shared.http import DocumentedRoute
from shared.json_types import Instant


@dataclass(frozen=True)
class Moderation:
    """Moderation, and appeals against bans. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def judge(
        self, number: int, command: rules.ModerationCommand, operator: str
    ) -> DecisionResult:
        """Hold, release, disqualify or restore, or answer an appeal."""
        submission = await load_submission(self.ports, number)
        return await self.decisions.make_all([moderation_command(submission, command)], operator)

    async def ban(
        self, participant: str, reason: str, until_at: datetime | None, operator: str
    ) -> DecisionResult:
        """Ban a participant, until a time or for ever. Raises `Refused` and `Failed`."""
        event = events.AccountBanned(reason=reason, until_at=until_at)
        return await self._decide_account(participant, event, operator)

    async def unban(self, participant: str, reason: str, operator: str) -> DecisionResult:
        """Lift a ban. Raises `Refused` and `Failed`."""
        return await self._decide_account(
            participant, events.AccountUnbanned(reason=reason), operator
        )

    async def answer_ban_appeal(
        self, participant: str, answer: events.BanAppealDecided, operator: str
    ) -> DecisionResult:
        """Answer an appeal; accepting it lifts the ban. Raises `Refused` and `Failed`."""
        account = await self._find_below(participant, operator)
        command = rules.BanAppealCommand(answer, self.decisions.clock())
        agg = subjects.account(account)
        return await self.decisions.make(agg, rules.ban_appeals, command, operator)

    async def appeal_ban(self, caller: Caller, text: str) -> DecisionResult:
        """Appeal against the caller's own ban. Raises `Refused` and `Failed`."""
        if caller.ban is None:
            raise rules.not_banned()
        data = text.encode()
        filed = events.BanAppealFiled(text=describe_blob(data, TEXT_MEDIA))
        command = rules.BanAppealCommand(filed, self.decisions.clock())
        return await self.decisions.make_all(
            [AggregateCommand(subjects.account(caller.id), rules.ban_appeals, command)],
            caller.actor,
            partial(self.ports.blobs.put, data, TEXT_MEDIA),
        )

    async def load_ban_appeal(self, account: str) -> BanAppeal | None:
        """Return the appeal against an account's last ban, or None. Raises `Failed`."""
        appeal: BanAppeal | None = None
        for event in await self.ports.log.history(subjects.account(account)):
            match event.fact:
                case events.AccountBanned():
                    appeal = None
                case events.BanAppealFiled(text=blob):
                    try:
                        text = (await self.ports.blobs.get(blob.digest)).decode()
                    except BlobNotFound:
                        text = ""
                    filed_at = event.envelope.at
                    appeal = BanAppeal(text=text, filed_at=filed_at, is_accepted=None, reason=None)
                case events.BanAppealDecided(is_accepted=is_accepted, reason=reason) if (
                    appeal is not None
                ):
                    appeal = structs.replace(appeal, is_accepted=is_accepted, reason=reason)
        return appeal

    async def _decide_account(
        self, participant: str, event: events.AccountBanned | events.AccountUnbanned, operator: str
    ) -> DecisionResult:
        account = await self._find_below(participant, operator)
        return await decide_account(self.decisions, account, event, operator)

    async def _find_below(self, participant: str, operator: str) -> str:
        """Return an account that this operator may decide about. Raises `Refused` and `Failed`."""
        account = await resolve_account(self.ports.people, self.ports.log, participant)
        accounts.check_over(self.feed.now().roles, operator, account)
        return account


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
        number: NumberInPath, body: AppealDecisionRequest, actor: Operator
    ) -> DecisionResponse:
        """Answer an appeal; accepting it lifts the hold or disqualification."""
        command = events.AppealDecided(is_accepted=body.is_accepted, reason=body.reason)
        return decision_response(await moderation.judge(number, command, actor))

    @router.post("/admin/submissions/{number}/{act}")
    async def judge(
        number: NumberInPath,
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
    async def ban(name: NameInPath, body: BanRequest, actor: Operator) -> DecisionResponse:
        """Ban a participant, until a time or for ever."""
        until = body.until_at.astimezone(UTC) if body.until_at else None
        return decision_response(await moderation.ban(name, body.reason, until, actor))

    @router.post("/admin/participants/{name}/unban")
    async def unban(name: NameInPath, body: ReasonRequest, actor: Operator) -> DecisionResponse:
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
        name: NameInPath, body: AppealDecisionRequest, actor: Operator
    ) -> DecisionResponse:
        """Answer an appeal against a ban; accepting it lifts the ban."""
        answer = events.BanAppealDecided(is_accepted=body.is_accepted, reason=body.reason)
        return decision_response(await moderation.answer_ban_appeal(name, answer, actor))
