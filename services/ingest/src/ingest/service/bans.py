"""Appeals against bans: the one thing that who is banned may still ask for."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ingest.domain import accounts, appeals
from ingest.domain.callers import Caller
from ingest.service.decisions import By, Decisions, Made, Wish
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports, account_of
from shared import subjects
from shared.blobs import Missing, named
from shared.events import AccountBanned, BanAppealDecided, BanAppealFiled

TEXT = "text/plain"


class Appeal(NamedTuple):
    """An appeal against the last ban; `answer` is None while it is open."""

    text: str
    filed_at: datetime
    answer: BanAppealDecided | None


@dataclass(frozen=True)
class Bans:
    """The commands about appeals against bans."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def appeal(self, caller: Caller, text: str) -> Made:
        """Ask to look again at one's own ban. Errors: Refused; Failed."""
        if caller.ban is None:
            raise appeals.not_banned()
        command = appeals.AppealBan(named(text.encode(), TEXT), self.decisions.clock())
        agg = subjects.account(caller.id)
        # Nothing is kept of what is refused.
        await self.decisions.preview([Wish(agg, appeals.appeals, command)])
        await self.ports.blobs.put(text.encode(), TEXT)
        return await self._decide(caller.id, command, caller.actor)

    async def answer(self, participant: str, is_accepted: bool, reason: str, operator: str) -> Made:
        """Answer an appeal; an accepted one ends the ban. Errors: Refused; Failed."""
        account = await account_of(self.ports.people, self.ports.log, participant)
        accounts.check_over(self.feed.now().roles, operator, account)
        command = appeals.AnswerAppeal(is_accepted, reason, self.decisions.clock())
        return await self._decide(account, command, operator)

    async def appeal_of(self, account: str) -> Appeal | None:
        """What somebody says against their last ban, None if nothing. Errors: Failed."""
        found: Appeal | None = None
        for one in await self.ports.log.history(subjects.account(account)):
            match one.fact:
                case AccountBanned():
                    found = None
                case BanAppealFiled() as filed:
                    found = Appeal(await self._text(filed), one.envelope.at, None)
                case BanAppealDecided() as answer if found is not None:
                    found = found._replace(answer=answer)
        return found

    async def _text(self, filed: BanAppealFiled) -> str:
        try:
            return (await self.ports.blobs.get(filed.text.digest)).decode()
        except Missing:
            return ""

    async def _decide(
        self, account: str, command: appeals.AppealBan | appeals.AnswerAppeal, actor: str
    ) -> Made:
        agg, by = subjects.account(account), By(actor, account)
        made = await self.decisions.make(agg, appeals.appeals, command, by)
        await self.feed.reach(made.seq)
        return made
