"""Moderation of submissions and participants by operators, and appeals against bans."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated

from msgspec import structs
from pydantic import Field

from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.histories import load_submission
from ingest.http.requests import APPEAL_LENGTH_MAX, RequestModel
from ingest.identity.access.feed import AccessFeed
from ingest.identity.accounts.rules import check_outranks
from ingest.identity.accounts.service import decide_account
from ingest.identity.caller import Caller, check_problem
from ingest.moderation import rules
from ingest.ports import Ports, resolve_account
from ingest.submission_history import SubmissionHistory
from shared import events, subjects
from shared.api.accounts import BanAppeal
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Refused, unknown_submission

RANKED = "ranked"
APPEAL_MEDIA = "text/plain"


class AppealRequest(RequestModel):
    """The text of an appeal."""

    text: Annotated[str, Field(min_length=1, max_length=APPEAL_LENGTH_MAX)]


def moderation_command(
    submission: SubmissionHistory, command: rules.ModerationCommand
) -> AggregateCommand:
    """Return a command that is decided on a submission's own history and its moderation's."""
    decider = rules.MODERATION_DECIDER
    moderation_decider = replace(decider, initial=decider.fold(submission.facts))
    return AggregateCommand(subjects.moderation(submission.id), moderation_decider, command)


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

    async def hold(self, number: int, caller: Caller, rule: str, reason: str) -> DecisionResult:
        """Hold a submission, as an operator or as the author of its problem."""
        is_author = not caller.may("admin:submissions")
        if is_author:
            await self._check_author(number, caller)
        held = events.SubmissionHeld(rule=rule, reason=reason, is_by_author=is_author)
        return await self.judge(number, held, caller.actor)

    async def release(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Release a held submission, as an operator or as the author of its problem.

        An author cannot release what a moderator holds, nor a submission of their own.
        """
        if caller.may("admin:submissions"):
            return await self.judge(number, events.SubmissionReleased(reason=reason), caller.actor)
        if await self._check_author(number, caller) == caller.account:
            message = f"submission {number} is your own: ask a moderator to release it"
            raise Refused("scope_missing", message, "number")
        return await self.judge(number, rules.AuthorRelease(reason), caller.actor)

    async def _check_author(self, number: int, caller: Caller) -> str:
        """Return the account of a ranked submission to a problem of the caller's.

        Others, and those in other modes, are refused as far as the caller may know of them.
        """
        submission = await load_submission(self.ports, number)
        received = submission.received
        if received.problem in caller.owned:
            check_problem(caller, received.problem)
            if received.mode != RANKED and submission.account != caller.account:
                raise unknown_submission(number)
            return submission.account
        try:
            self.feed.rights().check_sees(caller, received.problem)
        except Refused as refused:
            raise unknown_submission(number) from refused
        message = f"submission {number} is for a problem of another author"
        raise Refused("not_yours", message, "number")

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
        aggregate = subjects.account(account)
        return await self.decisions.make(aggregate, rules.BAN_APPEAL_DECIDER, command, operator)

    async def appeal_ban(self, caller: Caller, text: str) -> DecisionResult:
        """Appeal against the caller's own ban. Raises `Refused` and `Failed`."""
        if caller.ban is None:
            raise rules.not_banned()
        data = text.encode()
        filed = events.BanAppealFiled(text=describe_blob(data, APPEAL_MEDIA))
        command = rules.BanAppealCommand(filed, self.decisions.clock())
        return await self.decisions.make_all(
            [AggregateCommand(subjects.account(caller.id), rules.BAN_APPEAL_DECIDER, command)],
            caller.actor,
            partial(self.ports.blobs.put, data, APPEAL_MEDIA),
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
        account = await resolve_account(self.ports.account_store, self.ports.log, participant)
        check_outranks(self.feed.rights().roles, operator, account)
        return account
