"""Whether the tables of accounts are those that the log knows, or were lost."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ingest.domain import account_tables as rules
from ingest.domain.account_tables import LOST
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.ports import Tables
from shared import subjects
from shared.errors import Failed
from shared.outages import Ail, warn_rarely

ACCOUNTS = "accounts"
ACTOR = "service:ingest"
LOOK_S = 1.0
START_S = 0.05

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AccountTables:
    """Compares the database's register with the one that the log adopted."""

    decisions: Decisions
    feed: AccessFeed
    tables: Tables

    async def settle(self) -> bool:
        """Find out whether names are lost, and let nobody take one meanwhile; True if they are.

        Tables that are the first of this log are adopted, once it is known that it has no
        accounts. Errors: Failed.
        """
        row = await self.tables.register_row()
        agg = subjects.audit(ACCOUNTS)
        history = await self.decisions.log.history(agg)
        adopted = rules.tables.fold(event.fact for event in history)
        if adopted is None and self.feed.ill():
            return row.is_lost
        # The accounts of a log from before there were registers are in tables that have some.
        is_first = adopted is None and (row.has_participants or not self.feed.now().has_accounts)
        is_lost = adopted != row.id and not is_first
        if adopted is None and not is_lost:
            await self._adopt(row.id, "these tables are the first of this log", ACTOR)
        if is_lost != row.is_lost:
            await self.tables.set_lost(is_lost=is_lost)
        self.tables.forget_names()
        return is_lost

    async def settle_at_start(self) -> None:
        """Settle before anybody is answered, if possible: in an empty database names are free."""
        with suppress(Failed):
            await self.settle()

    async def adopt(self, reason: str, operator: str) -> Made:
        """Let names be given anew in the tables as they are. Errors: Refused; Failed."""
        row = await self.tables.register_row()
        made = await self._adopt(row.id, reason, operator)
        await self.tables.set_lost(is_lost=False)
        return made

    async def watch(self, register: Callable[[], str], tell: Callable[[bool], None]) -> None:
        """Settle at the start, and whenever the database is another one, for ever.

        `register` is what the database was last found to be, "" before that.
        """
        settled = ""
        while True:
            found = register()
            if found and not self.feed.ill():
                try:
                    is_lost = await self.settle()
                except Failed as failed:
                    warn_rarely(_log, ACCOUNTS, "whether names are lost is not known: %s", failed)
                else:
                    settled = found
                    tell(is_lost)
                    if is_lost:
                        warn_rarely(_log, "accounts lost", LOST)
            await asyncio.sleep(LOOK_S if settled else START_S)

    async def _adopt(self, register: str, reason: str, by: str) -> Made:
        agg, command = subjects.audit(ACCOUNTS), rules.Adopt(register, reason)
        return await self.decisions.make(agg, rules.tables, command, By(by, ACCOUNTS))


def ail_while_lost(ail: Ail, gauge: Callable[[float], None]) -> Callable[[bool], None]:
    """What /healthz and the metric tell."""

    def tell(is_lost: bool) -> None:
        ail(ACCOUNTS, LOST if is_lost else None)
        gauge(float(is_lost))

    return tell
