"""Participants: accounts, names, identities and roles, and whether their tables were lost."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import Gauge

from ingest.access.feed import AccessFeed
from ingest.accounts import rules
from ingest.accounts.rules import LOST
from ingest.decisions import DecisionResult, Decisions
from ingest.ports import AccountStore, Identity, resolve_account
from shared import subjects
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import AccountOpened, AccountTablesAdopted, IdentityLinked, IdentityUnlinked
from shared.health import HealthReporter, warn_rarely
from shared.metrics import metric_prefix

ACCOUNTS = "accounts"
TABLES_ACTOR = "service:ingest"
TABLES_LOOK_S = 1.0
TABLES_START_S = 0.05

_log = logging.getLogger(__name__)


async def decide_account(
    decisions: Decisions, account: str, event: rules.AccountEvent, actor: str
) -> DecisionResult:
    """Decide about an account; the result applies at once. Raises `Refused` and `Failed`."""
    command = rules.AccountCommand(event, decisions.clock())
    return await decisions.make(subjects.account(account), rules.accounts, command, actor)


@dataclass(frozen=True)
class Accounts:
    """The commands about accounts. Methods may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    register: AccountStore

    async def open(self, name: str, via: str, by: str) -> tuple[str, DecisionResult]:
        """Return the account of a participant, opened if the name is new."""
        account = await self.register.account(rules.check_name(name))
        return account, await self.decide(
            account, AccountOpened(via=via), by or f"account:{account}"
        )

    async def find(self, name: str) -> str:
        """Return the account of a participant by name or account. Raises `Refused` and `Failed`."""
        return await resolve_account(self.register, self.decisions.log, name)

    async def name_of(self, account: str) -> str:
        """Return the name of an account; the account itself once the name is erased."""
        return await self.register.name_of(account) or account

    async def rename(self, name: str, new_name: str, by: str) -> str:
        """Rename a participant and return the account; the old name still leads to it.

        No event contains a name, so that names can be erased. Raises `Refused` (`name_taken`, or
        `scope_missing` if a moderator renames an operator) and `Failed`.
        """
        account = await self.find(name)
        rules.check_over(self.feed.now().roles, by, account)
        if not await self.register.rename(account, rules.check_name(new_name)):
            message = f"{new_name} is or was the name of another participant: choose another"
            raise Refused("name_taken", message, "name")
        return account

    async def account_of_identity(self, provider: str, subject: str) -> str | None:
        """Return the account that an identity is linked to, or None. Raises `Failed`."""
        identity = await self.register.identity_of(provider, subject)
        return None if identity is None else identity.account

    async def link(self, account: str, provider: str, subject: str, by: str) -> DecisionResult:
        """Link an identity to a participant; repeating changes nothing.

        Raises `Refused` (`identity_taken`) if it belongs to another participant, and `Failed`.
        """
        identity = Identity(new_id(), provider, subject, account)
        if not await self.register.add_identity(identity):
            existing = await self.register.identity_of(provider, subject)
            if existing is None or existing.account != account:
                message = f"this {provider} identity belongs to another participant"
                raise Refused("identity_taken", message, "subject")
            identity = existing
        linked = IdentityLinked(identity=identity.id, provider=provider)
        return await self.decide(account, linked, by)

    async def unlink(self, account: str, identity: str, reason: str, by: str) -> DecisionResult:
        """Remove an identity from a participant. Raises `Refused` and `Failed`."""
        unlinked = IdentityUnlinked(identity=identity, reason=reason)
        result = await self.decide(account, unlinked, by)
        await self.register.remove_identity(identity)
        return result

    async def decide(self, account: str, event: rules.AccountEvent, by: str) -> DecisionResult:
        """Decide about an account; the result applies at once. Raises `Refused` and `Failed`."""
        return await decide_account(self.decisions, account, event, by)


@dataclass(frozen=True)
class AccountTables:
    """Detects whether the tables of accounts were lost."""

    decisions: Decisions
    feed: AccessFeed
    tables: AccountStore

    async def settle(self) -> bool:
        """Check whether the names are lost, and refuse new names while they are; return whether.

        The first tables of a log are adopted if the log has no accounts. Raises `Failed`.
        """
        row = await self.tables.register_row()
        adopted = await self.decisions.load_state(subjects.audit(ACCOUNTS), rules.tables)
        if adopted is None and self.feed.ill():
            return row.is_lost
        # A log older than registers has its accounts in tables with participants.
        is_first = adopted is None and (row.has_participants or not self.feed.now().has_accounts)
        is_lost = adopted != row.id and not is_first
        if adopted is None and not is_lost:
            await self._adopt(row.id, "these tables are the first of this log", TABLES_ACTOR)
        if is_lost != row.is_lost:
            await self.tables.set_lost(is_lost=is_lost)
        self.tables.forget_names()
        return is_lost

    async def settle_at_start(self) -> None:
        """Settle before serving, if possible: in an empty database every name is free."""
        with suppress(Failed):
            await self.settle()

    async def adopt(self, reason: str, operator: str) -> DecisionResult:
        """Allow new names in the current tables. Raises `Refused` and `Failed`."""
        row = await self.tables.register_row()
        result = await self._adopt(row.id, reason, operator)
        await self.tables.set_lost(is_lost=False)
        return result

    async def watch(self, register: Callable[[], str], set_problem: HealthReporter) -> None:
        """Settle at the start and whenever the database changes; never returns.

        `register` returns the register that was found last, "" before the first look. Lost names
        are reported to /healthz and the metrics.
        """
        name = f"{metric_prefix('ingest')}_accounts_lost"
        gauge = Gauge(name, "1 while the names of participants are lost")
        settled_register = ""
        while True:
            current_register = register()
            if current_register and not self.feed.ill():
                try:
                    is_lost = await self.settle()
                except Failed as failed:
                    warn_rarely(_log, ACCOUNTS, "cannot tell whether names are lost: %s", failed)
                else:
                    settled_register = current_register
                    set_problem(ACCOUNTS, LOST if is_lost else None)
                    gauge.set(is_lost)
                    if is_lost:
                        warn_rarely(_log, "accounts lost", LOST)
            await asyncio.sleep(TABLES_LOOK_S if settled_register else TABLES_START_S)

    async def _adopt(self, register: str, reason: str, by: str) -> DecisionResult:
        adoption = AccountTablesAdopted(register=register, reason=reason)
        return await self.decisions.make(subjects.audit(ACCOUNTS), rules.tables, adoption, by)
