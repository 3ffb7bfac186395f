"""Participants: accounts, names, identities, roles and tokens, and whether their tables were lost.

The text of a token is shown once and never stored.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from prometheus_client import Gauge

from ingest.decisions import DecisionResult, Decisions
from ingest.histories import HistoryCache
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.fold import Token
from ingest.identity.access.usage import TokenUsage
from ingest.identity.accounts import rules
from ingest.identity.caller import Caller, account_actor, check_unlimited
from ingest.identity.names import LOST, check_name
from ingest.identity.secrets import hash_secret, new_token_text
from ingest.ports import AccountStore, Identity, TokenRow, resolve_account
from shared import subjects
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import (
    AccountOpened,
    AccountTablesAdopted,
    IdentityLinked,
    IdentityUnlinked,
    RoleGranted,
    RoleRevoked,
    TokenIssued,
    TokenRevoked,
)
from shared.health import HealthReporter, warn_rarely
from shared.metrics import metric_prefix

ACCOUNTS = "accounts"
TABLES_ACTOR = "service:ingest"
TABLES_LOOK_S = 1.0
TABLES_START_S = 0.05
SHOWN_PREFIX_LENGTH = 10
KNOWN_MAX = 10_000

_log = logging.getLogger(__name__)


async def decide_account(
    decisions: Decisions, account: str, event: rules.AccountEvent, actor: str
) -> DecisionResult:
    """Decide about an account; the result applies at once. Raises `Refused` and `Failed`."""
    command = rules.AccountCommand(event, decisions.clock())
    return await decisions.make(subjects.account(account), rules.ACCOUNT_DECIDER, command, actor)


@dataclass(frozen=True)
class Accounts:
    """The commands about accounts. Methods may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    store: AccountStore

    def clock(self) -> datetime:
        """Return the time."""
        return self.decisions.clock()

    async def open(self, name: str, via: str, actor: str) -> tuple[str, DecisionResult]:
        """Return the account of a participant, opened if the name is new."""
        account = await self.store.open_account(check_name(name))
        return account, await self.decide(
            account, AccountOpened(via=via), actor or account_actor(account)
        )

    async def find(self, name: str) -> str:
        """Return the account of a participant by name or account. Raises `Refused` and `Failed`."""
        return await resolve_account(self.store, self.decisions.log, name)

    async def name_of(self, account: str) -> str:
        """Return the name of an account; the account itself once the name is erased."""
        return await self.store.name_of(account) or account

    async def rename(
        self, name: str, new_name: str, reason: str, actor: str
    ) -> tuple[str, DecisionResult]:
        """Rename a participant and return the account; the old name still leads to it.

        No event contains a name, so that names can be erased. Raises `Refused` (`name_taken`, or
        `scope_missing` if a moderator renames an operator) and `Failed`.
        """
        account = await self.find(name)
        rules.check_outranks(self.feed.rights().roles, actor, account)
        if not await self.store.rename(account, check_name(new_name)):
            message = f"{new_name} is or was the name of another participant: choose another"
            raise Refused("name_taken", message, "name")
        return account, await self.decisions.record_action("rename", account, reason, actor)

    async def account_of_identity(self, provider: str, subject: str) -> str | None:
        """Return the account that an identity is linked to, or None. Raises `Failed`."""
        identity = await self.store.identity_of(provider, subject)
        return None if identity is None else identity.account

    async def list_identities(self, account: str) -> Sequence[Identity]:
        """Return the identities of an account, oldest first. Raises `Failed`."""
        parts = self.feed.rights().parts_of(account)
        return [it for part in parts for it in await self.store.identities(part)]

    async def check_has_another_identity(self, account: str) -> None:
        """Refuse to unlink the only identity of a participant. Raises `Refused` and `Failed`."""
        if len(await self.list_identities(account)) < 2:
            raise Refused("wrong_state", "this is your only way to log in: link another one first")

    async def link(self, account: str, provider: str, subject: str, actor: str) -> DecisionResult:
        """Link an identity to a participant; repeating changes nothing.

        Raises `Refused` (`identity_taken`) if it belongs to another participant, and `Failed`.
        """
        identity = Identity(new_id(), provider, subject, account)
        if not await self.store.add_identity(identity):
            existing = await self.store.identity_of(provider, subject)
            if existing is None or existing.account not in self.feed.rights().parts_of(account):
                message = f"this {provider} identity belongs to another participant"
                raise Refused("identity_taken", message, "subject")
            identity = existing
        linked = IdentityLinked(identity=identity.id, provider=provider)
        return await self.decide(identity.account, linked, actor)

    async def unlink(self, account: str, identity: str, reason: str, actor: str) -> DecisionResult:
        """Remove an identity from a participant. Raises `Refused` and `Failed`."""
        unlinked = IdentityUnlinked(identity=identity, reason=reason)
        linked = await self.list_identities(account)
        linked_to = next((it.account for it in linked if it.id == identity), account)
        result = await self.decide(linked_to, unlinked, actor)
        await self.store.remove_identity(identity)
        return result

    async def grant_role(self, name: str, role: str, reason: str, actor: str) -> DecisionResult:
        """Give a participant a role. Raises `Refused` and `Failed`."""
        return await self.decide(
            await self.find(name), RoleGranted(role=role, reason=reason), actor
        )

    async def revoke_role(self, name: str, role: str, reason: str, actor: str) -> DecisionResult:
        """Take a role from a participant. Raises `Refused` and `Failed`."""
        return await self.decide(
            await self.find(name), RoleRevoked(role=role, reason=reason), actor
        )

    async def decide(self, account: str, event: rules.AccountEvent, actor: str) -> DecisionResult:
        """Decide about an account; the result applies at once. Raises `Refused` and `Failed`."""
        return await decide_account(self.decisions, account, event, actor)


class KnownAccounts:
    """Accounts that were read from the log, and have had no event since.

    Like access rights, they may lack what another process wrote in this moment: who would be
    refused is read again.
    """

    def __init__(self, histories: HistoryCache, feed: AccessFeed) -> None:
        self._histories = histories
        self._feed = feed
        self._known: dict[str, rules.Account] = {}
        feed.listen(self._forget)

    async def state(self, account: str) -> rules.Account:
        """Return an account as far as it is known. Raises `Failed`."""
        known = self._known.get(subjects.account(account))
        if known is not None and not self._feed.why_unhealthy():
            return known
        return await self.read(account)

    async def read(self, account: str) -> rules.Account:
        """Return an account as it is in the log. Raises `Failed`."""
        aggregate, folded = subjects.account(account), self._feed.folded
        state = await self._histories.state(aggregate, rules.ACCOUNT_DECIDER)
        # Otherwise the feed may have heard meanwhile that this account has changed since.
        if self._feed.folded == folded:
            self._known[aggregate] = state
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return state

    def _forget(self, aggregate: str) -> None:
        self._known.pop(aggregate, None)


@dataclass(frozen=True)
class AccountTables:
    """Detects whether the tables of accounts were lost."""

    decisions: Decisions
    feed: AccessFeed
    store: AccountStore

    async def settle(self) -> bool:
        """Check whether the names are lost, and refuse new names while they are; return whether.

        The first tables of a log are adopted if the log has no accounts. Raises `Failed`.
        """
        row = await self.store.register_row()
        adopted = await self.decisions.load_state(subjects.audit(ACCOUNTS), rules.TABLES_DECIDER)
        if adopted is None and self.feed.why_unhealthy():
            return row.is_lost
        # Participants may have come before the tables could be adopted.
        is_first = adopted is None and (row.has_participants or not self.feed.rights().has_accounts)
        is_lost = adopted != row.id and not is_first
        if adopted is None and not is_lost:
            await self._adopt(row.id, "these tables are the first of this log", TABLES_ACTOR)
        if is_lost != row.is_lost:
            await self.store.set_lost(is_lost=is_lost)
        return is_lost

    async def settle_at_start(self) -> None:
        """Settle before serving, if possible: in an empty database every name is free."""
        with suppress(Failed):
            await self.settle()

    async def adopt(self, reason: str, operator: str) -> DecisionResult:
        """Allow new names in the current tables. Raises `Refused` and `Failed`."""
        row = await self.store.register_row()
        result = await self._adopt(row.id, reason, operator)
        await self.store.set_lost(is_lost=False)
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
            if current_register and not self.feed.why_unhealthy():
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

    async def _adopt(self, register: str, reason: str, actor: str) -> DecisionResult:
        adoption = AccountTablesAdopted(register=register, reason=reason)
        aggregate = subjects.audit(ACCOUNTS)
        return await self.decisions.make(aggregate, rules.TABLES_DECIDER, adoption, actor)


class NewToken(NamedTuple):
    """A token to issue; its text is generated unless `secret` is given.

    `problems` limits it to these problems; empty means no limit.
    """

    kind: str
    name: str
    scopes: Sequence[str]
    expires_at: datetime | None
    problems: Sequence[str] = ()
    secret: str | None = None
    reason: str = ""


class IssuedToken(NamedTuple):
    """A token that was issued; `secret` is its text, which cannot be shown again."""

    number: int
    token_id: str
    secret: str
    prefix: str
    expires_at: datetime | None


class TokenDetails(NamedTuple):
    """A token as its owner sees it."""

    token: Token
    row: TokenRow


@dataclass(frozen=True)
class Tokens:
    """The commands about tokens; callers check rights. They may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    store: AccountStore
    usage: TokenUsage

    def clock(self) -> datetime:
        """Return the time."""
        return self.decisions.clock()

    async def issue(self, account: str, new: NewToken, actor: str) -> IssuedToken:
        """Let a secret act for an account from now on.

        Raises `Refused` (`cli_id_taken` if a given secret is in use) and `Failed`.
        """
        text = new.secret or new_token_text()
        fact = TokenIssued(
            token=new_id(),
            token_hash=hash_secret(text),
            kind=new.kind,
            scopes=list(dict.fromkeys(new.scopes)),
            expires_at=new.expires_at,
            problems=list(dict.fromkeys(new.problems)),
            reason=new.reason,
        )
        prefix = text[:SHOWN_PREFIX_LENGTH]
        # The name first, so that every token in the log has one in the lists.
        await self.store.add_token(TokenRow(fact.token, account, new.name, prefix))
        result = await decide_account(self.decisions, account, fact, actor)
        assert result.seq is not None, "an issued token is an event"
        existing = self.feed.rights().tokens.get(fact.token_hash)
        if existing is not None and existing.id != fact.token:
            raise Refused("cli_id_taken", "this id is already linked to somebody", "cli_id")
        return IssuedToken(result.seq, fact.token, text, prefix, new.expires_at)

    async def issue_own(self, caller: Caller, new: NewToken) -> IssuedToken:
        """Issue a token for the caller; it may do no more than their current token."""
        if missing := sorted(set(new.scopes) - caller.scopes):
            message = f"you cannot grant {', '.join(missing)}: your own token does not have it"
            raise Refused("scope_missing", message, "scopes")
        if caller.problems and (not new.problems or set(new.problems) - caller.problems):
            message = f"your own token is limited to {', '.join(sorted(caller.problems))}"
            raise Refused("scope_missing", message, "problems")
        for slug in new.problems:
            self.feed.rights().check_sees(caller, slug)
        return await self.issue(caller.id, new, caller.actor)

    async def revoke_any(self, number: int, reason: str, actor: str) -> DecisionResult:
        """Revoke any token, for an operator. Raises `Refused` (`unknown_token`) and `Failed`."""
        access = self.feed.rights()
        token = _find(access.tokens.values(), number, f"there is no token {number}")
        rules.check_outranks(access.roles, actor, access.account_of(token.account))
        return await self._revoke(token, reason, actor)

    async def revoke_own(self, caller: Caller, number: int) -> DecisionResult:
        """Revoke a token of the caller; every token may revoke itself.

        Raises `Refused` (`scope_missing`, `unknown_token`) and `Failed`.
        """
        own_tokens = self.feed.rights().tokens_of(caller.id)
        is_this = any((token.number, token.id) == (number, caller.token) for token in own_tokens)
        if not (is_this or caller.manages_tokens):
            message = "this needs the scope account, or the token that is revoked"
            raise Refused("scope_missing", message)
        if not is_this:
            check_unlimited(caller)
        return await self.revoke(caller.id, number, "revoked by its owner", caller.actor)

    async def revoke(self, account: str, number: int, reason: str, actor: str) -> DecisionResult:
        """Revoke a token of an account. Raises `Refused` (`unknown_token`) and `Failed`."""
        own_tokens = self.feed.rights().tokens_of(account)
        token = _find(own_tokens, number, f"you have no token {number}")
        return await self._revoke(token, reason, actor)

    async def _revoke(self, token: Token, reason: str, actor: str) -> DecisionResult:
        revoked = TokenRevoked(token=token.id, reason=reason)
        return await decide_account(self.decisions, token.account, revoked, actor)

    async def list_tokens(self, account: str) -> list[TokenDetails]:
        """Return the tokens of an account that are not revoked, oldest first. Raises `Failed`."""
        parts = self.feed.rights().parts_of(account)
        rows = {row.token: row for part in parts for row in await self.store.tokens(part)}
        blank = TokenRow("", account, "", "")
        own_tokens = self.feed.rights().tokens_of(account)
        return [TokenDetails(token, rows.get(token.id, blank)) for token in own_tokens]


def _find(tokens: Iterable[Token], number: int, message: str) -> Token:
    for token in tokens:
        if token.number == number:
            return token
    raise Refused("unknown_token", message, "id")
