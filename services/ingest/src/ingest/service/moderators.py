"""What operators decide about submissions and participants."""

from dataclasses import dataclass
from datetime import datetime

from ingest.domain import accounts, moderation, quotas
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.numbered import by_number
from ingest.service.participants import moderate
from ingest.service.ports import ACCOUNT, Ports, account_of
from shared import subjects


@dataclass(frozen=True)
class Moderators:
    """The commands of operators about people and what they sent."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def judge(
        self, number: int, command: moderation.ModerationCommand, operator: str
    ) -> Made:
        """Hold, release, disqualify or restore, or answer an appeal. Errors: Refused; Failed."""
        found = await by_number(self.ports, number)
        return await moderate(self.decisions, found, command, By(operator, found.id))

    async def ban(
        self, participant: str, reason: str, until_at: datetime | None, operator: str
    ) -> Made:
        """Keep a participant out, until then or for ever. Errors: Refused; Failed."""
        command = accounts.Ban(reason, self.decisions.clock(), until_at)
        return await self._treat(participant, command, operator)

    async def unban(self, participant: str, reason: str, operator: str) -> Made:
        """Let a participant in again. Errors: Refused; Failed."""
        command = accounts.Unban(reason, self.decisions.clock())
        return await self._treat(participant, command, operator)

    async def limit(self, participant: str | None, command: quotas.SetLimit, operator: str) -> Made:
        """Limit what a participant may take, or everybody. Errors: Refused; Failed."""
        account = quotas.EVERYBODY
        if participant is not None:
            # A limit may be there before its participant comes.
            is_account = ACCOUNT.match(participant) is not None
            account = await (
                account_of(self.ports.people, self.ports.log, participant)
                if is_account
                else self.ports.people.account(participant)
            )
        by = By(operator, account)
        return await self.decisions.make(subjects.quota(account), quotas.limits, command, by)

    async def _treat(
        self, participant: str, command: accounts.Ban | accounts.Unban, operator: str
    ) -> Made:
        account = await account_of(self.ports.people, self.ports.log, participant)
        accounts.check_over(self.feed.now().roles, operator, account)
        agg, by = subjects.account(account), By(operator, account)
        made = await self.decisions.make(agg, accounts.accounts, command, by)
        await self.feed.reach(made.seq)
        return made
