"""Postgres: connections with limits, migrations, named statements, checkpoints, the outbox."""

import hashlib
import importlib.resources
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from shared.errors import Failed

CONNECT_S_MAX = 5
STATEMENT_S_MAX = 60
RECOVERY_S_MAX = 60.0
PAUSE_S = 0.2
POOLED_STATEMENT_S_MAX = 10
POOL_WAIT_S_MAX = 5.0
POOL_WAITING_MAX = 200

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


@contextmanager
def _reaching(what: str) -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise Failed(f"{what}: {error}") from error


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
    with _reaching("Postgres does not let us in"):
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


def _apply(connection: Connection[Any], schema: str, migration: Migration) -> None:
    connection.execute(migration.text.encode())
    values = {"number": migration.number, "name": migration.name, "digest": migration.digest}
    connection.execute(_named("record_migration", schema=schema), values)


def migrate(dsn: str, package: str, schema: str, patience_s: float = RECOVERY_S_MAX) -> int:
    """Bring a schema to the newest of a package's migrations; how many ran now.

    All in one transaction, one process at a time; Postgres, which may be recovering, gets
    `patience_s` to let us in. Errors: Failed if it did not, or kept us waiting for 60 s;
    ValueError if a migration that ran was changed since.
    """
    with (
        _reaching(f"cannot migrate {schema}"),
        _connected(dsn, patience_s) as connection,
        connection.transaction(),
    ):
        turn = statements("shared", "postgres.sql")["await_turn"]
        connection.execute(turn.encode(), {"schema": schema})
        connection.execute(_named("create_schema", schema=schema))
        connection.execute(_named("create_migration", schema=schema))
        connection.execute(_named("enter_schema", schema=schema))
        rows = connection.execute(_named("migrations", schema=schema)).fetchall()
        ran = {number: digest for number, _, digest in rows}
        pending = _pending(_migrations(package), ran, schema)
        for migration in pending:
            _apply(connection, schema, migration)
    return len(pending)


def drop_schema(dsn: str, schema: str) -> None:
    """Remove a schema and all in it. Errors: Failed."""
    with _reaching(f"cannot drop {schema}"), _connected(dsn) as connection:
        connection.execute(_named("drop_schema", schema=schema))


def create_database(dsn: str, name: str) -> str:
    """Make an empty database and return its DSN. Errors: Failed."""
    with _reaching(f"cannot create {name}"), _connected(dsn) as connection:
        connection.execute(_named("create_database", database=name))
    return database(dsn, name)


def drop_database(dsn: str, name: str) -> None:
    """Remove a database, and whoever is connected to it. Errors: Failed."""
    with _reaching(f"cannot drop {name}"), _connected(dsn) as connection:
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
        try:
            async with self.pool.connection() as connection:
                cursor = await connection.execute(text, values)
                row = await cursor.fetchone() if cursor.description else None
        except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
            raise Failed(f"the outbox cannot be reached: {error}") from error
        return row[0] if row else None
