"""Participants' names, identities, tokens' names and invites' codes: never in an event."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import ForeignKeyViolation, UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ingest.domain.account_tables import accounts_lost, name_lost
from ingest.service.ports import (
    LOST_AFTER_S,
    REPEATS_KEPT_S,
    Asked,
    Identity,
    Kept,
    Note,
    RegisterRow,
    TokenRow,
)
from ingest.service.webhooks import Delivery, Row, Wish
from shared.clock import new_id
from shared.errors import Failed
from shared.outages import warn_rarely
from shared.postgres import borrow_connection, statements

log = logging.getLogger(__name__)

ACCOUNTS_MAX = 10_000
# Who submits waits for 60 s.
TURN_S_MAX = 30.0
# While Postgres is away or takes no writes: what is logged, and what is told.
ACCOUNTS_AWAY = (
    "the accounts cannot be reached",
    "the accounts cannot be read or written for a moment; ask again",
)
WEBHOOKS_AWAY = (
    "the webhooks cannot be reached",
    "the webhooks cannot be read or written for a moment; ask again",
)
REPEATS_AWAY = (
    "what was done under keys cannot be reached",
    "what was done under this key cannot be read or written for a moment; ask again",
)


@dataclass(frozen=True)
class PostgresPeople:
    """Participants in the tables of the schema accounts; a name keeps its account for ever.

    However many ask at once, each waits for its turn here: the pool would turn most of them away.
    """

    pool: AsyncConnectionPool
    _turns: asyncio.Semaphore = field(init=False)
    _accounts: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_turns", asyncio.Semaphore(self.pool.max_size))

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new.

        Errors: Refused `accounts_lost` while nobody gets a name; Failed.
        """
        if name in self._accounts:
            return self._accounts[name]
        if rows := await self._ask("open_account", account=new_id(), name=name):
            return _kept(self._accounts, name, str(rows[0][0]))
        if (await self.register_row()).is_lost:
            raise accounts_lost()
        opened = await self.known(name)
        assert opened is not None, "whoever opened it at that moment has opened it"
        return opened

    async def known(self, name: str) -> str | None:
        """The account of a participant's name, None if nobody has it. Errors: Failed."""
        if name in self._accounts:
            return self._accounts[name]
        rows = await self._ask("account_of", name=name)
        return _kept(self._accounts, name, str(rows[0][0])) if rows else None

    async def name_of(self, account: str) -> str | None:
        """The name of an account, None if it is erased. Errors: Failed."""
        if account in self._names:
            return self._names[account]
        rows = await self._ask("name_of", account=account)
        return _kept(self._names, account, str(rows[0][0])) if rows else None

    async def names(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Accounts with their names, in order, from after an account. Errors: Failed."""
        rows = await self._ask("names", after=after, limit=limit)
        return [(str(account), str(name)) for account, name in rows]

    async def rename(self, account: str, name: str) -> bool:
        """Another name for an account; False if it is, or was, another's. Errors: Failed."""
        try:
            is_done = bool(await self._ask("rename", account=account, name=name))
            is_done = is_done or bool(await self._ask("give_name", account=account, name=name))
        except UniqueViolation:  # Somebody else was faster, and nothing of this was kept.
            return False
        self._names.pop(account, None)
        return is_done

    async def register_row(self) -> RegisterRow:
        """Which database this is. Errors: Failed."""
        ((register, is_lost, has_participants),) = await self._ask("register_row")
        return RegisterRow(str(register), bool(is_lost), bool(has_participants))

    async def set_lost(self, *, is_lost: bool) -> None:
        """Let nobody get a name, or let them again. Errors: Failed."""
        await self._ask("set_lost", is_lost=is_lost)

    def forget_names(self) -> None:
        """Remember no name from before."""
        self._accounts.clear()
        self._names.clear()

    async def identity_of(self, provider: str, subject: str) -> Identity | None:
        """Whose an identity is. Errors: Failed."""
        rows = await self._ask("identity_of", provider=provider, subject=subject)
        return Identity(*rows[0]) if rows else None

    async def add_identity(self, identity: Identity) -> bool:
        """Keep one; False if it is somebody's already. Errors: Failed."""
        kept = identity._asdict()
        del kept["linked_at"]
        return bool(await self._ask("add_identity", **kept))

    async def remove_identity(self, identity: str) -> None:
        """Forget one; harmless to repeat. Errors: Failed."""
        await self._ask("remove_identity", identity=identity)

    async def identities(self, account: str) -> Sequence[Identity]:
        """Those of an account, oldest first. Errors: Failed."""
        return [Identity(*row) for row in await self._ask("identities", account=account)]

    async def add_token(self, row: TokenRow) -> None:
        """Keep the name of a token. Errors: Failed."""
        kept = row._asdict()
        del kept["last_used_at"]
        await self._ask("add_token", **kept)

    async def tokens(self, account: str) -> Sequence[TokenRow]:
        """Those of an account. Errors: Failed."""
        return [TokenRow(*row) for row in await self._ask("tokens", account=account)]

    async def used(self, tokens: Mapping[str, datetime]) -> None:
        """Note when tokens were used last. Errors: Failed."""
        await self._ask("used", tokens=list(tokens), ats=list(tokens.values()))

    async def add_invites(self, codes: Mapping[str, str]) -> None:
        """Keep the codes of invites, by invite. Errors: Failed."""
        await self._ask("add_invites", invites=list(codes), codes=list(codes.values()))

    async def codes(self, invites: Sequence[str]) -> Mapping[str, str]:
        """The codes of invites, by invite. Errors: Failed."""
        rows = await self._ask("codes", invites=list(invites))
        return {str(invite): str(code) for invite, code in rows}

    async def has_row(self, account: str) -> bool:
        """Whether an account is in the tables, asked of them. Errors: Failed."""
        return bool(await self._ask("name_of", account=account))

    async def begin_notes(self, account: str, submissions: Sequence[str], note: Note) -> None:
        """Keep the first note of each, and none where there is one. Errors: Failed."""
        wanted = {"account": account, "submissions": list(submissions)}
        await self._ask("begin_notes", **wanted, **note._asdict())

    async def say_note(self, account: str, submission: str, note: Note) -> None:
        """Keep this one instead. Errors: Failed."""
        await self._ask("say_note", account=account, submission=submission, **note._asdict())

    async def _ask(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        sql = statements("ingest", "participants.sql")[statement]
        with refuse_nameless(values.get("account")):
            async with self._turn(), borrow_connection(self.pool, *ACCOUNTS_AWAY) as connection:
                cursor = await connection.execute(sql.encode(), values)
                return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """As many at once as there are connections, in order. Errors: Failed."""
        try:
            async with asyncio.timeout(TURN_S_MAX):
                await self._turns.acquire()
        except TimeoutError as error:
            warn_rarely(log, "turns", "no turn at the accounts within %.0f s", TURN_S_MAX)
            raise Failed(ACCOUNTS_AWAY[1]) from error
        try:
            yield
        finally:
            self._turns.release()


@contextmanager
def refuse_nameless(account: object) -> Iterator[None]:
    """Refuse what refers to a participant whose row is not there. Errors: Refused `name_lost`."""
    try:
        yield
    except ForeignKeyViolation as error:
        raise name_lost(str(account)) from error


def _kept(cache: dict[str, str], key: str, value: str) -> str:
    """The value, remembered; the oldest is forgotten past a limit."""
    if len(cache) >= ACCOUNTS_MAX:
        del cache[next(iter(cache))]
    cache[key] = value
    return value


@dataclass(frozen=True)
class PostgresWebhooks:
    """Webhooks in the tables of the schema accounts, which ranker reads too."""

    pool: AsyncConnectionPool

    async def add(self, account: str, id_: str, wish: Wish, most: int) -> bool:
        """Keep one that is not in the log yet; see the port. Errors: Failed."""
        values = {"id": id_, "account": account, "most": most, "url": wish.url}
        lists = {"kinds": list(wish.kinds), "problems": list(wish.problems)}
        steps = ("one_at_a_time", "clear_webhooks", "add_webhook")
        return bool(await self._ask(*steps, secret=wish.secret, **values, **lists))

    async def keep(self, id_: str, seq: int) -> None:
        """It is in the log. Errors: Failed."""
        await self._ask("keep_webhook", id=id_, seq=seq)

    async def forget(self, id_: str) -> None:
        """Keep nothing of one. Errors: Failed."""
        await self._ask("forget_webhook", id=id_)

    async def listed(self, account: str) -> Sequence[Row]:
        """Those of an account. Errors: Failed."""
        return [Row(*row) for row in await self._ask("webhooks", account=account)]

    async def test(self, id_: str, event: str) -> None:
        """Have it told that this is a test. Errors: Failed."""
        await self._ask("test_webhook", id=id_, event=event)

    async def deliveries(self, id_: str, before: int, limit: int) -> Sequence[Delivery]:
        """What it was told. Errors: Failed."""
        rows = await self._ask("deliveries", id=id_, before=before, limit=limit)
        return [Delivery(*row) for row in rows]

    async def _ask(self, *names: str, **values: object) -> list[tuple[Any, ...]]:
        """The rows of the last of these statements, all in one transaction."""
        *first, last = (statements("ingest", "webhooks.sql")[name].encode() for name in names)
        with refuse_nameless(values.get("account")):
            async with (
                borrow_connection(self.pool, *WEBHOOKS_AWAY) as connection,
                connection.transaction(),
            ):
                for statement in first:
                    await connection.execute(statement, values)
                cursor = await connection.execute(last, values)
                return await cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class PostgresRepeats:
    """What was done under Idempotency-Keys, in accounts.idempotency."""

    pool: AsyncConnectionPool

    async def begin(self, asked: Asked) -> Kept | None:
        """None for the first under its key; see the port. Errors: Failed."""
        lost_before = asked.at - timedelta(seconds=LOST_AFTER_S)
        past = {"lost_before": lost_before, "kept_before": _past(asked.at)}
        if await self._ask("begin_repeat", **asked._asdict(), **past):
            return None
        rows = await self._ask("repeat", **asked._asdict())
        if not rows:  # It was forgotten just now: the next repeat is the first.
            return Kept(asked.request_hash, None, b"")
        request_hash, status, body = rows[0]
        return Kept(request_hash, status, bytes(body or b""))

    async def keep(self, asked: Asked, status: int, body: bytes) -> None:
        """What the first was answered. Errors: Failed."""
        await self._ask("keep_repeat", **asked._asdict(), status=status, body=body)

    async def forget(self, asked: Asked) -> None:
        """The first did nothing. Errors: Failed."""
        await self._ask("forget_repeat", **asked._asdict())

    async def purge(self, at: datetime) -> None:
        """Forget what is more than a day old. Errors: Failed."""
        await self._ask("purge_repeats", kept_before=_past(at))

    async def _ask(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        sql = statements("ingest", "repeats.sql")[statement].encode()
        async with borrow_connection(self.pool, *REPEATS_AWAY) as connection:
            cursor = await connection.execute(sql, values)
            return await cursor.fetchall() if cursor.description else []


def _past(at: datetime) -> datetime:
    """Before when nothing is kept any more."""
    return at - timedelta(seconds=REPEATS_KEPT_S)
