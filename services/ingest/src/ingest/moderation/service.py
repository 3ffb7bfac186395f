"""Moderation of submissions and participants by operators, and appeals against bans."""

from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from ingest.access.callers import Caller
from ingest.access.feed import AccessFeed
from ingest.accounts import rules as accounts
from ingest.decisions import (
    AggregateCommand,
    Command,
    CommandContext,
    DecisionResult,
    Decisions,
    State,
)
from ingest.moderation import rules
from ingest.ports import Ports, resolve_account
from ingest.submissions.service import load_submission, moderation_command
from shared import subjects
from shared.api.accounts import BanAppeal
from shared.blobs import BlobNotFound, describe_blob
from shared.decider import Decider
from shared.events import AccountBanned, BanAppealDecided, BanAppealFiled, Fact

TEXT_MEDIA = "text/plain"


@dataclass(frozen=True)
class Moderation:
    """Moderates submissions and participants, and takes appeals against bans."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def judge(
        self, number: int, command: rules.ModerationCommand, operator: str
    ) -> DecisionResult:
        """Hold, release, disqualify or restore, or answer an appeal.

        Raises `Refused` and `Failed`.
        """
        submission = await load_submission(self.ports, number)
        return await self.decisions.make_all(
            [moderation_command(submission, command)], CommandContext(operator, submission.id)
        )

    async def ban(
        self, participant: str, reason: str, until_at: datetime | None, operator: str
    ) -> DecisionResult:
        """Ban a participant, until a time or for ever. Raises `Refused` and `Failed`."""
        command = accounts.Ban(reason, self.decisions.clock(), until_at)
        return await self._decide_account(participant, accounts.accounts, command, operator)

    async def unban(self, participant: str, reason: str, operator: str) -> DecisionResult:
        """Lift a ban. Raises `Refused` and `Failed`."""
        command = accounts.Unban(reason, self.decisions.clock())
        return await self._decide_account(participant, accounts.accounts, command, operator)

    async def appeal_ban(self, caller: Caller, text: str) -> DecisionResult:
        """Appeal against the caller's own ban. Raises `Refused` and `Failed`."""
        if caller.ban is None:
            raise rules.not_banned()
        data, account = text.encode(), caller.id
        command = rules.AppealBan(describe_blob(data, TEXT_MEDIA), self.decisions.clock())

        async def store_text() -> None:
            await self.ports.blobs.put(data, TEXT_MEDIA)

        result = await self.decisions.make_all(
            [AggregateCommand(subjects.account(account), rules.ban_appeals, command)],
            CommandContext(caller.actor, account),
            store_text,
        )
        await self.feed.reach(result.seq)
        return result

    async def answer_ban_appeal(
        self, participant: str, is_accepted: bool, reason: str, operator: str
    ) -> DecisionResult:
        """Answer an appeal; accepting it lifts the ban. Raises `Refused` and `Failed`."""
        command = rules.AnswerAppeal(is_accepted, reason, self.decisions.clock())
        return await self._decide_account(participant, rules.ban_appeals, command, operator)

    async def load_ban_appeal(self, account: str) -> BanAppeal | None:
        """Return the appeal against an account's last ban, or None. Raises `Failed`."""
        appeal: BanAppeal | None = None
        for event in await self.ports.log.history(subjects.account(account)):
            match event.fact:
                case AccountBanned():
                    appeal = None
                case BanAppealFiled(text=blob):
                    try:
                        text = (await self.ports.blobs.get(blob.digest)).decode()
                    except BlobNotFound:
                        text = ""
                    filed_at = event.envelope.at
                    appeal = BanAppeal(text=text, filed_at=filed_at, is_accepted=None, reason=None)
                case BanAppealDecided(is_accepted=is_accepted, reason=reason) if appeal is not None:
                    appeal = structs.replace(appeal, is_accepted=is_accepted, reason=reason)
        return appeal

    async def _decide_account(
        self,
        participant: str,
        decider: Decider[Command, State, Fact],
        command: Command,
        operator: str,
    ) -> DecisionResult:
        account = await resolve_account(self.ports.people, self.ports.log, participant)
        accounts.check_over(self.feed.now().roles, operator, account)
        agg, by = subjects.account(account), CommandContext(operator, account)
        result = await self.decisions.make(agg, decider, command, by)
        await self.feed.reach(result.seq)
        return result
