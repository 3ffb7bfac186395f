"""Names, identities, token names and invite codes in Postgres; no event contains them."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from psycopg.errors import UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ingest.identity.login.postgres import check_has_name
from ingest.identity.names import accounts_lost
from ingest.ports import (
    LOST_AFTER_S,
    REPEATS_KEPT_S,
    IdempotentRequest,
    Identity,
    NewWebhook,
    Note,
    RegisterRow,
    StoredResponse,
    TokenRow,
)
from shared.api.webhooks import Delivery, Webhook
from shared.clock import new_id
from shared.errors import Failed
from shared.health import warn_rarely
from shared.postgres import borrow_connection, load_statements

log = logging.getLogger(__name__)

ACCOUNTS_MAX = 10_000
# How late this process may see that another one renamed somebody or erased a name.
NAMES_KEPT_S = 10.0
# Clients that submit wait 60 s.
TURN_S_MAX = 30.0


@dataclass(frozen=True)
class _Store:
    """Runs the statements of one SQL file; `subject` is what they store."""

    pool: AsyncConnectionPool
    file: ClassVar[str]
    subject: ClassVar[str]

    async def _ask(self, *names: str, **values: object) -> list[tuple[Any, ...]]:
        """Run statements in one transaction and return the rows of the last one.

        Raises `Failed`, and `Refused` (`name_lost`) for rows of a missing participant.
        """
        *first, last = (load_statements("ingest", self.file)[name].encode() for name in names)
        message = f"the {self.subject} are unavailable for a moment: try again"
        with check_has_name(values.get("account")):
            async with (
                borrow_connection(
                    self.pool, f"the {self.subject} cannot be reached", message
                ) as connection,
                connection.transaction() if first else nullcontext(),
            ):
                for statement in first:
                    await connection.execute(statement, values)
                cursor = await connection.execute(last, values)
                return await cursor.fetchall() if cursor.description else []


@dataclass
class _KnownNames:
    """Accounts by name and names by account, as they were read in the last seconds.

    Other processes may rename a participant or erase a name, and the database may be replaced by
    another one, whose `register` differs.
    """

    register: str = ""
    since_s: float = 0.0
    accounts: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def check_register(self, register: str) -> None:
        """Forget what was read from another database."""
        if register != self.register:
            self.register = register
            self.forget()

    def forget_old(self) -> None:
        """Forget what was read too long ago."""
        if time.monotonic() - self.since_s > NAMES_KEPT_S:
            self.forget()

    def forget(self) -> None:
        """Forget everything."""
        self.since_s = time.monotonic()
        self.accounts.clear()
        self.names.clear()


@dataclass(frozen=True)
class PostgresAccountStore(_Store):
    """Participants in the schema accounts; a name belongs to its account for ever.

    Concurrent requests wait for their turn here: the pool would refuse most of them.
    """

    file = "participants.sql"
    subject = "accounts"

    _turns: asyncio.Semaphore = field(init=False)
    _known: _KnownNames = field(default_factory=_KnownNames)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_turns", asyncio.Semaphore(self.pool.max_size))

    async def open_account(self, name: str) -> str:
        """Return the account of a name, opened if the name is new.

        Raises `Refused` (`accounts_lost`) while no names are given, and `Failed`.
        """
        self._known.forget_old()
        if name in self._known.accounts:
            return self._known.accounts[name]
        if rows := await self._ask("open_account", account=new_id(), name=name):
            return _remember(self._known.accounts, name, str(rows[0][0]))
        if (await self.register_row()).is_lost:
            raise accounts_lost()
        opened = await self.find_account(name)
        assert opened is not None, "another request opened the account at the same moment"
        return opened

    async def find_account(self, name: str) -> str | None:
        """Return the account of a name, or None. Raises `Failed`."""
        self._known.forget_old()
        if name in self._known.accounts:
            return self._known.accounts[name]
        rows = await self._ask("account_of", name=name)
        return _remember(self._known.accounts, name, str(rows[0][0])) if rows else None

    async def name_of(self, account: str) -> str | None:
        """Return the name of an account, None if it is erased. Raises `Failed`."""
        self._known.forget_old()
        if account in self._known.names:
            return self._known.names[account]
        rows = await self._ask("name_of", account=account)
        return _remember(self._known.names, account, str(rows[0][0])) if rows else None

    async def names_of(self, accounts: Sequence[str]) -> Mapping[str, str]:
        """Return the names of accounts, without those that are erased. Raises `Failed`."""
        self._known.forget_old()
        names = {
            account: self._known.names[account]
            for account in accounts
            if account in self._known.names
        }
        if unknown := [account for account in accounts if account not in names]:
            for account, name in await self._ask("names_of", accounts=unknown):
                names[str(account)] = _remember(self._known.names, str(account), str(name))
        return names

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Return a page of accounts with their names, in order. Raises `Failed`."""
        rows = await self._ask("names", after=after, limit=limit)
        return [(str(account), str(name)) for account, name in rows]

    async def personal_names(self) -> Sequence[str]:
        """Return every name that participants have or had, and their ids on other systems."""
        statement = load_statements("shared", "names.sql")["names"].encode()
        message = "the accounts are unavailable for a moment: try again"
        async with borrow_connection(self.pool, "the accounts cannot be reached", message) as open_:
            rows = await (await open_.execute(statement)).fetchall()
        return [str(name) for (name,) in rows]

    async def rename(self, account: str, name: str) -> bool:
        """Rename an account; False if another account has or had the name. Raises `Failed`."""
        try:
            is_done = bool(await self._ask("rename", account=account, name=name))
            is_done = is_done or bool(await self._ask("give_name", account=account, name=name))
        except UniqueViolation:  # Somebody else was faster; the statement was rolled back.
            return False
        self._known.names.pop(account, None)
        return is_done

    async def register_row(self) -> RegisterRow:
        """Return the register of this database. Raises `Failed`."""
        ((register, is_lost, has_participants),) = await self._ask("register_row")
        self._known.check_register(str(register))
        return RegisterRow(str(register), bool(is_lost), bool(has_participants))

    async def set_lost(self, *, is_lost: bool) -> None:
        """Refuse new names, or allow them again. Raises `Failed`."""
        await self._ask("set_lost", is_lost=is_lost)

    async def identity_of(self, provider: str, subject: str) -> Identity | None:
        """Return the identity with this provider and subject. Raises `Failed`."""
        rows = await self._ask("identity_of", provider=provider, subject=subject)
        return Identity(*rows[0]) if rows else None

    async def add_identity(self, identity: Identity) -> bool:
        """Store an identity; False if it belongs to somebody already. Raises `Failed`."""
        return bool(await self._ask("add_identity", **identity._asdict()))

    async def remove_identity(self, identity: str) -> None:
        """Remove an identity; harmless to repeat. Raises `Failed`."""
        await self._ask("remove_identity", identity=identity)

    async def identities(self, account: str) -> Sequence[Identity]:
        """Return the identities of an account, oldest first. Raises `Failed`."""
        return [Identity(*row) for row in await self._ask("identities", account=account)]

    async def add_token(self, row: TokenRow) -> None:
        """Store the name of a token. Raises `Failed`."""
        await self._ask("add_token", **row._asdict())

    async def tokens(self, account: str) -> Sequence[TokenRow]:
        """Return the rows of an account. Raises `Failed`."""
        return [TokenRow(*row) for row in await self._ask("tokens", account=account)]

    async def record_usage(self, tokens: Mapping[str, datetime]) -> None:
        """Store when tokens were last used. Raises `Failed`."""
        await self._ask("used", tokens=list(tokens), ats=list(tokens.values()))

    async def add_invites(self, codes: Mapping[str, str]) -> None:
        """Store the codes of invites, by invite. Raises `Failed`."""
        await self._ask("add_invites", invites=list(codes), codes=list(codes.values()))

    async def codes(self, invites: Sequence[str]) -> Mapping[str, str]:
        """Return the codes of invites, by invite. Raises `Failed`."""
        rows = await self._ask("codes", invites=list(invites))
        return {str(invite): str(code) for invite, code in rows}

    async def has_row(self, account: str) -> bool:
        """Return whether an account is in the tables, without the cache. Raises `Failed`."""
        return bool(await self._ask("name_of", account=account))

    async def begin_notes(self, account: str, submissions: Sequence[str], note: Note) -> None:
        """Store a first note on each submission that has none. Raises `Failed`."""
        ids = list(submissions)
        await self._ask("begin_notes", account=account, submissions=ids, **note._asdict())

    async def set_note(self, account: str, submission: str, note: Note) -> None:
        """Replace a note. Raises `Failed`."""
        await self._ask("set_note", account=account, submission=submission, **note._asdict())

    async def _ask(self, *names: str, **values: object) -> list[tuple[Any, ...]]:
        """Allow as many at once as there are connections, in order."""
        try:
            async with asyncio.timeout(TURN_S_MAX):
                await self._turns.acquire()
        except TimeoutError as error:
            warn_rarely(log, "turns", "no turn at the accounts within %.0f s", TURN_S_MAX)
            raise Failed("the accounts are unavailable for a moment: try again") from error
        try:
            return await super()._ask(*names, **values)
        finally:
            self._turns.release()


def _remember(cache: dict[str, str], key: str, value: str) -> str:
    """Cache a value and return it; the oldest one is dropped at the limit."""
    if len(cache) >= ACCOUNTS_MAX:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


@dataclass(frozen=True)
class PostgresWebhookStore(_Store):
    """Webhooks in the schema accounts, which ranker reads, too."""

    file = "webhooks.sql"
    subject = "webhooks"

    async def add(self, account: str, id_: str, webhook: NewWebhook, webhooks_max: int) -> bool:
        """Store a webhook that is not in the log yet; see the port. Raises `Failed`."""
        values = {"id": id_, "account": account, "most": webhooks_max, "url": webhook.url}
        lists = {"kinds": list(webhook.kinds), "problems": list(webhook.problems)}
        steps = ("one_at_a_time", "clear_webhooks", "add_webhook")
        return bool(await self._ask(*steps, secret=webhook.secret, **values, **lists))

    async def keep(self, id_: str, seq: int) -> None:
        """Store that it is in the log. Raises `Failed`."""
        await self._ask("keep_webhook", id=id_, seq=seq)

    async def forget(self, id_: str) -> None:
        """Remove a webhook. Raises `Failed`."""
        await self._ask("forget_webhook", id=id_)

    async def listed(self, account: str) -> Sequence[Webhook]:
        """Return the webhooks of an account. Raises `Failed`."""
        rows = await self._ask("webhooks", account=account)
        return [Webhook(**dict(zip(Webhook.__struct_fields__, row, strict=True))) for row in rows]

    async def test(self, id_: str, event: str) -> None:
        """Send a test event. Raises `Failed`."""
        await self._ask("test_webhook", id=id_, event=event)

    async def deliveries(self, id_: str, before: int, limit: int) -> Sequence[Delivery]:
        """Return the deliveries of a webhook. Raises `Failed`."""
        rows = await self._ask("deliveries", id=id_, before=before, limit=limit)
        return [Delivery(**dict(zip(Delivery.__struct_fields__, row, strict=True))) for row in rows]


@dataclass(frozen=True)
class PostgresIdempotencyStore(_Store):
    """Requests under Idempotency-Keys, in accounts.idempotency."""

    file = "idempotency.sql"
    subject = "idempotency keys"

    async def begin(self, request: IdempotentRequest) -> StoredResponse | None:
        """Return None for the first request under its key; see the port. Raises `Failed`."""
        lost_before = request.at - timedelta(seconds=LOST_AFTER_S)
        limits = {"lost_before": lost_before, "kept_before": _expiry(request.at)}
        if await self._ask("begin_request", **request._asdict(), **limits):
            return None
        rows = await self._ask("find_request", **request._asdict())
        if not rows:  # Its key was just freed: the next repeat is the first request.
            return StoredResponse(request.request_hash, None, b"")
        request_hash, status, body = rows[0]
        return StoredResponse(request_hash, status, bytes(body or b""))

    async def keep(self, request: IdempotentRequest, status: int, body: bytes) -> None:
        """Store the response to the first request. Raises `Failed`."""
        await self._ask("store_response", **request._asdict(), status=status, body=body)

    async def forget(self, request: IdempotentRequest) -> None:
        """Free the key of a request that changed nothing. Raises `Failed`."""
        await self._ask("forget_request", **request._asdict())

    async def purge(self, at: datetime) -> None:
        """Delete requests that are more than a day old. Raises `Failed`."""
        await self._ask("purge_requests", kept_before=_expiry(at))


def _expiry(at: datetime) -> datetime:
    """Return the time before which requests have expired."""
    return at - timedelta(seconds=REPEATS_KEPT_S)
