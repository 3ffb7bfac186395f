"""Postgres: connections with limits, migrations, named statements, checkpoints, the outbox."""

import asyncio
import hashlib
import importlib.resources
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from shared.errors import Failed
from shared.outages import Ail, warn_rarely

CONNECT_S_MAX = 5
STATEMENT_S_MAX = 60
RECOVERY_S_MAX = 60.0
PAUSE_S = 0.2
POOLED_STATEMENT_S_MAX = 10
POOL_WAIT_S_MAX = 5.0
POOL_WAITING_MAX = 200
PROBE_EVERY_S = 5.0
PROBE_S_MAX = 2.0
# The part of a process that /healthz names while Postgres takes no writes.
DATABASE = "database"

# What Postgres says when the world is not as it must be, beside psycopg's own OperationalError
# (lost connections, 53 resources, 57 shutdowns, 58 I/O errors, 40 rollbacks, 55 locks): a server
# that takes no writes, a session that was ended, a database that is not the one we set up.
READ_ONLY = "25006"
OUTAGES = frozenset({READ_ONLY, "25P03", "25P04", "3D000", "3F000", "42501", "42P01"})
# Internal errors of the server: damaged rows and indexes among them.
INTERNAL = "XX"
# Of these a new migration is the cure: the database was replaced by an empty one.
MISSING_TABLES = frozenset({"3F000", "42P01"})

_log = logging.getLogger(__name__)
_HEADER = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\n", re.MULTILINE)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_MIGRATION = re.compile(r"(\d{4})_[a-z0-9_]+\.sql\Z")


class Fenced(Exception):  # noqa: N818
    """Another projector moved this checkpoint: leave, and nothing of the batch is kept."""

    def __init__(self, name: str, after: int) -> None:
        super().__init__(f"the checkpoint of {name} is no longer at {after}: another one moved it")
        self.name = name
        self.after = after


class Migration(NamedTuple):
    """One step of a schema, from `migrations/NNNN_name.sql` of a package."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """What its file says, in short."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def statements(package: str, file: str) -> dict[str, str]:
    """The statements of a package's `sql/<file>`, each under its `-- name:` header.

    Errors: ValueError if a name comes twice, or a header has no comment line describing it.
    """
    text = (importlib.resources.files(package) / "sql" / file).read_text(encoding="utf-8")
    _, *parts = _HEADER.split(text)
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise ValueError(f"{package}/sql/{file} has two statements named {name}")
        if not body.startswith("-- "):
            raise ValueError(f"{package}/sql/{file}: no comment line describes {name}")
        found[name] = re.sub(r"\A(-- .*\n)+", "", body).strip().removesuffix(";")
    return found


def _named(statement: str, **identifiers: str) -> sql.Composed:
    """One of our own statements, with identifiers quoted into it."""
    quoted = {key: sql.Identifier(value) for key, value in identifiers.items()}
    return sql.SQL(statements("shared", "postgres.sql")[statement]).format(**quoted)


class MissingTables(Failed):
    """The database has not our tables: it was replaced while we ran. `migrate` makes them."""


def is_outage(error: psycopg.Error) -> bool:
    """Whether an error is the world's: trying again later is of use, and no code is wrong."""
    if isinstance(error, psycopg.OperationalError):
        return True
    state = error.sqlstate or ""
    return state in OUTAGES or state.startswith(INTERNAL)


@contextmanager
def translate_outages(what: str, told: str | None = None) -> Iterator[None]:
    """Raise Failed for whatever is not a mistake of ours, with what Postgres says.

    With `told`, who asked is told that alone, and the log has the reason, once a minute.
    """
    try:
        yield
    except psycopg.Error as error:
        if not is_outage(error):
            raise
        reason = f"{what}: {error}".strip()
        if told is not None:
            warn_rarely(_log, what, "%s", reason)
        kind = MissingTables if error.sqlstate in MISSING_TABLES else Failed
        raise kind(told or reason) from error


@asynccontextmanager
async def borrow_connection(
    pool: AsyncConnectionPool, what: str, told: str | None = None, within_s: float | None = None
) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection of a pool. Errors: Failed, as `translate_outages` says.

    One that was found read-only is closed: its session may stay so when the server is not.
    """
    with translate_outages(what, told):
        async with pool.connection(timeout=within_s) as connection:
            try:
                yield connection
            except ReadOnlySqlTransaction:
                await connection.close()
                raise


def _limits(schema: str, statement_s: int) -> dict[str, Any]:
    """Parameters of every connection: no wait without a limit, and where unqualified names lie."""
    if not _SCHEMA.match(schema):
        raise ValueError(f"{schema!r} is no schema: lower case letters, digits and _")
    return {
        "connect_timeout": CONNECT_S_MAX,
        "autocommit": True,
        "options": f"-c search_path={schema} -c statement_timeout={statement_s}s"
        f" -c lock_timeout={statement_s}s -c client_encoding=UTF8 -c timezone=UTC",
    }


async def connect(dsn: str, schema: str = "public") -> AsyncConnection[Any]:
    """A connection, each transaction of which is a `transaction()` block. Errors: Failed."""
    with translate_outages("Postgres does not let us in"):
        return await AsyncConnection.connect(dsn, **_limits(schema, STATEMENT_S_MAX))


def pool(dsn: str, least: int, most: int, schema: str = "public") -> AsyncConnectionPool:
    """A pool, opened and closed by `async with`; its connections are those of `connect`.

    Errors, later: PoolTimeout when no connection came free in 5 s.
    """
    return AsyncConnectionPool(
        dsn,
        kwargs=_limits(schema, POOLED_STATEMENT_S_MAX),
        min_size=least,
        max_size=most,
        timeout=POOL_WAIT_S_MAX,
        max_waiting=POOL_WAITING_MAX,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )


def database(dsn: str, name: str) -> str:
    """The same server, another database."""
    return make_conninfo(dsn, dbname=name)


def _connected(dsn: str, patience_s: float = 0.0) -> Connection[Any]:
    """A connection, as soon as Postgres lets us in."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return Connection.connect(dsn, **_limits("public", STATEMENT_S_MAX))
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def _migrations(package: str) -> list[Migration]:
    files = (importlib.resources.files(package) / "migrations").iterdir()
    found = [
        Migration(int(match[1]), file.name, file.read_text(encoding="utf-8"))
        for file in files
        if (match := _MIGRATION.match(file.name))
    ]
    found.sort()
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are {numbers}: expected 1, 2, … once each")
    return found


def _pending(known: list[Migration], ran: dict[int, str], schema: str) -> list[Migration]:
    changed = [one.name for one in known if ran.get(one.number, one.digest) != one.digest]
    if changed:
        raise ValueError(f"{schema} ran another {', '.join(changed)}: add a new one instead")
    return [one for one in known if one.number not in ran]


def _has_migrations(connection: Connection[Any], schema: str) -> bool:
    """Whether anything was ever migrated in a schema."""
    statement = statements("shared", "postgres.sql")["has_migrations"].encode()
    row = connection.execute(statement, {"schema": schema}).fetchone()
    return bool(row and row[0])


def _ran(connection: Connection[Any], schema: str) -> dict[int, str]:
    """The digest of each migration that ran, by its number."""
    rows = connection.execute(_named("migrations", schema=schema)).fetchall()
    return {number: digest for number, _, digest in rows}


def _apply(connection: Connection[Any], schema: str, migration: Migration) -> None:
    connection.execute(migration.text.encode())
    values = {"number": migration.number, "name": migration.name, "digest": migration.digest}
    connection.execute(_named("record_migration", schema=schema), values)


def migrate(dsn: str, package: str, schema: str, patience_s: float = RECOVERY_S_MAX) -> int:
    """Bring a schema to the newest of a package's migrations; how many ran now.

    All in one transaction, one process at a time; where nothing is left to run, nothing is
    written, so that readers start beside a Postgres that takes no writes. Postgres, which may be
    recovering, gets `patience_s` to let us in. Errors: Failed if it did not, or kept us waiting
    for 60 s; ValueError if a migration that ran was changed since.
    """
    with (
        translate_outages(f"cannot migrate {schema}"),
        _connected(dsn, patience_s) as connection,
        connection.transaction(),
    ):
        known = _migrations(package)
        if _has_migrations(connection, schema) and not _pending(
            known, _ran(connection, schema), schema
        ):
            return 0
        turn = statements("shared", "postgres.sql")["await_turn"]
        connection.execute(turn.encode(), {"schema": schema})
        connection.execute(_named("create_schema", schema=schema))
        connection.execute(_named("create_migration", schema=schema))
        connection.execute(_named("enter_schema", schema=schema))
        pending = _pending(known, _ran(connection, schema), schema)
        for migration in pending:
            _apply(connection, schema, migration)
    return len(pending)


def drop_schema(dsn: str, schema: str) -> None:
    """Remove a schema and all in it. Errors: Failed."""
    with translate_outages(f"cannot drop {schema}"), _connected(dsn) as connection:
        connection.execute(_named("drop_schema", schema=schema))


def create_database(dsn: str, name: str) -> str:
    """Make an empty database and return its DSN. Errors: Failed."""
    with translate_outages(f"cannot create {name}"), _connected(dsn) as connection:
        connection.execute(_named("create_database", database=name))
    return database(dsn, name)


def drop_database(dsn: str, name: str) -> None:
    """Remove a database, and whoever is connected to it. Errors: Failed."""
    with translate_outages(f"cannot drop {name}"), _connected(dsn) as connection:
        connection.execute(_named("drop_database", database=name))


async def claim(connection: AsyncConnection[Any], name: str, after: int, last: int) -> None:
    """Move a projection's checkpoint, first in the transaction that writes what was folded.

    The row lies in `checkpoint(name, seq)` of the connection's schema. Errors: Fenced.
    """
    status = connection.info.transaction_status
    assert status == TransactionStatus.INTRANS, "a claim outside a transaction protects nothing"
    statement = statements("shared", "postgres.sql")["claim"].encode()
    cursor = await connection.execute(statement, {"name": name, "after": after, "last": last})
    if cursor.rowcount != 1:
        raise Fenced(name, after)


class WriteProbe:
    """Whether Postgres takes writes, found out by writing the one row of `accounts.register`.

    `trouble` is why it does not, "" while all is well; `register` is the id in that row, which a
    database that was replaced has not.
    """

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool
        self.trouble = ""
        self.register = ""

    async def look(self) -> None:
        """Write once. Errors: MissingTables."""
        statement = statements("shared", "postgres.sql")["probe"].encode()
        try:
            async with borrow_connection(
                self.pool, "Postgres takes no writes", within_s=PROBE_S_MAX
            ) as connection:
                row = await (await connection.execute(statement)).fetchone()
        except MissingTables:
            self.trouble = "the database was replaced by one without our tables"
            raise
        except Failed as failed:
            self.trouble = str(failed)
            return
        assert row is not None, "the migration makes the register's row"
        self.trouble, self.register = "", str(row[0])

    async def run(self, ail: Ail, prepare: Callable[[], Awaitable[None]]) -> None:
        """Look for ever, and tell /healthz; `prepare` makes the tables of a replaced database."""
        while True:
            try:
                await self.look()
            except MissingTables as missing:
                warn_rarely(_log, "register", "making the tables anew: %s", missing)
                ail(DATABASE, self.trouble)
                with suppress(Failed):
                    await prepare()
            else:
                ail(DATABASE, self.trouble or None)
            await asyncio.sleep(PROBE_EVERY_S)


@dataclass(frozen=True)
class PostgresOutbox:
    """Which event became which effect, in the table `outbox` of the pool's schema."""

    pool: AsyncConnectionPool

    async def begin(self, event: str, target: str) -> bool:
        """Write down that an effect is tried; False if it is done already. Errors: Failed."""
        return bool(await self._said("begin", event=event, target=target))

    async def mark(self, event: str, target: str) -> None:
        """Write down that an effect is done. Errors: Failed."""
        await self._said("mark", event=event, target=target)

    async def pending(self) -> int:
        """How many effects were tried and are not done. Errors: Failed."""
        return int(await self._said("pending"))

    async def _said(self, statement: str, **values: str) -> Any:
        """The one value a statement answers, None if it has none."""
        text = statements("shared", "outbox.sql")[statement].encode()
        async with borrow_connection(self.pool, "the outbox cannot be reached") as connection:
            cursor = await connection.execute(text, values)
            row = await cursor.fetchone() if cursor.description else None
        return row[0] if row else None
