"""Postgres: connections with limits, migrations, named statements, checkpoints, the outbox."""

import asyncio
import hashlib
import importlib.resources
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from shared.errors import Failed
from shared.health import HealthReporter, warn_rarely
from shared.lifecycle import keep_cancellation

CONNECT_S_MAX = 5
DEFAULT_PORT = "5432"
STATEMENT_S_MAX = 60
RECOVERY_S_MAX = 60.0
PAUSE_S = 0.2
POOLED_STATEMENT_S_MAX = 10
POOL_WAIT_S_MAX = 5.0
# A server whose machine is gone closes no connection: without these limits a read from it would
# last until the kernel gives up, 15 minutes.
TCP_LIMITS = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
POOL_WAITING_MAX = 200
PROBE_EVERY_S = 5.0
PROBE_S_MAX = 2.0
# The part that /healthz reports while Postgres accepts no writes.
DATABASE = "database"

# Outages besides psycopg's OperationalError (lost connections, 53 resources, 57 shutdowns, 58 I/O
# errors, 40 rollbacks, 55 locks): a read-only server, a terminated session, a database that is not
# the one we set up.
READ_ONLY = "25006"
OUTAGES = frozenset({READ_ONLY, "25P03", "25P04", "3D000", "3F000", "42501", "42P01"})
# Internal errors of the server, such as damaged rows and indexes.
INTERNAL = "XX"
# The database was replaced by an empty one: migrating again fixes it.
MISSING_TABLES = frozenset({"3F000", "42P01"})

_log = logging.getLogger(__name__)
_HEADER = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\n", re.MULTILINE)
_SUBQUERY = re.compile(r"\(:([a-z][a-z0-9_]*)\)")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_MIGRATION = re.compile(r"(\d{4})_[a-z0-9_]+\.sql\Z")


class CheckpointConflict(Exception):  # noqa: N818
    """Another projector moved this checkpoint: stop; nothing of the batch is stored."""

    def __init__(self, name: str, after: int) -> None:
        super().__init__(
            f"the checkpoint of {name} is no longer at {after}: another projector moved it"
        )
        self.name = name
        self.after = after


class Migration(NamedTuple):
    """One step of a schema, from `migrations/NNNN_name.sql` of a package."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """The SHA-256 of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def load_statements(package: str, file: str) -> dict[str, str]:
    """Load the statements of a package's `sql/<file>`, each under its `-- name:` header.

    In a statement, `(:name)` is the statement of that name as a subquery. Errors: ValueError for a
    duplicate or unknown name, or a header without a comment line describing it.
    """
    text = (importlib.resources.files(package) / "sql" / file).read_text(encoding="utf-8")
    _, *parts = _HEADER.split(text)
    by_name: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in by_name:
            raise ValueError(f"{package}/sql/{file} has two statements named {name}")
        if not body.startswith("-- "):
            raise ValueError(f"{package}/sql/{file}: no comment line describes {name}")
        by_name[name] = re.sub(r"\A(-- .*\n)+", "", body).strip().removesuffix(";")

    def find_subquery(reference: re.Match[str]) -> str:
        if reference[1] not in by_name:
            raise ValueError(f"{package}/sql/{file} has no statement named {reference[1]}")
        return f"({by_name[reference[1]]})"

    return {name: _SUBQUERY.sub(find_subquery, text) for name, text in by_name.items()}


def _compose(statement: str, **identifiers: str) -> sql.Composed:
    quoted = {key: sql.Identifier(value) for key, value in identifiers.items()}
    return sql.SQL(load_statements("shared", "postgres.sql")[statement]).format(**quoted)


class MissingTables(Failed):
    """The database lacks our tables: it was replaced while we ran. `migrate` creates them."""


def is_outage(error: psycopg.Error) -> bool:
    """Return whether an error is an outage: retrying later helps, and no code is wrong."""
    if isinstance(error, psycopg.OperationalError):
        return True
    state = error.sqlstate or ""
    return state in OUTAGES or state.startswith(INTERNAL)


@contextmanager
def translate_outages(what: str, told: str | None = None) -> Iterator[None]:
    """Turn outages into Failed, with Postgres's message.

    With `told`, the exception carries only that text, and the reason is logged, once a minute.
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
    """Borrow a connection from a pool. Errors: Failed, as for `translate_outages`.

    A connection found read-only is closed: its session may stay so when the server is not.
    """
    with translate_outages(what, told):
        async with AsyncExitStack() as borrowed:
            with keep_cancellation():
                connection = await borrowed.enter_async_context(pool.connection(timeout=within_s))
            try:
                yield connection
            except ReadOnlySqlTransaction:
                await connection.close()
                raise


def _connection_parameters(schema: str, statement_s: int, role: str = "") -> dict[str, Any]:
    """Return the parameters of every connection: limits on all waits, and the search path."""
    if not _SCHEMA.match(schema):
        raise ValueError(f"{schema!r} is not a schema: use lower case letters, digits and _")
    set_role = f" -c role={role}" if role else ""
    return {
        "connect_timeout": CONNECT_S_MAX,
        **TCP_LIMITS,
        "autocommit": True,
        "options": f"-c search_path={schema} -c statement_timeout={statement_s}s"
        f" -c lock_timeout={statement_s}s -c client_encoding=UTF8 -c timezone=UTC{set_role}",
    }


async def connect(dsn: str, schema: str = "public") -> AsyncConnection[Any]:
    """Open a connection whose transactions are `transaction()` blocks. Errors: Failed."""
    with translate_outages("cannot connect to Postgres"):
        return await AsyncConnection.connect(dsn, **_connection_parameters(schema, STATEMENT_S_MAX))


def create_pool(dsn: str, least: int, most: int, schema: str = "public") -> AsyncConnectionPool:
    """Return a pool, opened and closed by `async with`; its connections are like `connect`'s.

    Errors, later: PoolTimeout if no connection is free within 5 s.
    """
    return AsyncConnectionPool(
        dsn,
        kwargs=_connection_parameters(schema, POOLED_STATEMENT_S_MAX),
        min_size=least,
        max_size=most,
        timeout=POOL_WAIT_S_MAX,
        max_waiting=POOL_WAITING_MAX,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )


def connect_sync(dsn: str, patience_s: float = 0.0, role: str = "") -> Connection[Any]:
    """Open a connection that acts as `role`, waiting up to `patience_s` for Postgres to accept it.

    Errors: psycopg's OperationalError.
    """
    parameters, until = (
        _connection_parameters("public", STATEMENT_S_MAX, role),
        time.monotonic() + patience_s,
    )
    while True:
        try:
            return Connection.connect(dsn, **parameters)
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def _read_migrations(package: str) -> list[Migration]:
    files = (importlib.resources.files(package) / "migrations").iterdir()
    migrations = [
        Migration(int(match[1]), file.name, file.read_text(encoding="utf-8"))
        for file in files
        if (match := _MIGRATION.match(file.name))
    ]
    migrations.sort()
    numbers = [migration.number for migration in migrations]
    if numbers != list(range(1, len(migrations) + 1)):
        raise ValueError(f"the migrations of {package} are {numbers}: expected 1, 2, … once each")
    return migrations


def _pending_migrations(package: str, schema: str, applied: dict[int, str]) -> list[Migration]:
    """Return the migrations that did not run; `applied` are the digests of those that did."""
    migrations = _read_migrations(package)
    changed = [
        migration.name
        for migration in migrations
        if applied.get(migration.number, migration.digest) != migration.digest
    ]
    if changed:
        raise ValueError(f"{schema} ran another {', '.join(changed)}: add a new migration instead")
    return [migration for migration in migrations if migration.number not in applied]


def _find_pending(connection: Connection[Any], package: str, schema: str) -> list[Migration]:
    """Return the migrations that did not run in a schema, which need not exist."""
    statement = load_statements("shared", "postgres.sql")["has_migrations"].encode()
    row = connection.execute(statement, {"schema": schema}).fetchone()
    if not (row and row[0]):
        return _read_migrations(package)
    rows = connection.execute(_compose("migrations", schema=schema)).fetchall()
    return _pending_migrations(package, schema, {number: digest for number, _, digest in rows})


def await_migrations(
    dsn: str, package: str, schema: str, patience_s: float = RECOVERY_S_MAX
) -> None:
    """Wait until a schema of the owner has all migrations of a package; see `shared.database`.

    Errors: Failed if it has not after `patience_s`; ValueError if an applied migration was changed.
    """
    until = time.monotonic() + patience_s
    with (
        translate_outages(f"cannot read the migrations of {schema}"),
        connect_sync(dsn, patience_s) as connection,
    ):
        while pending := _find_pending(connection, package, schema):
            if time.monotonic() > until:
                names = ", ".join(migration.name for migration in pending)
                raise Failed(f"{schema} lacks {names}: run `python -m shared.database`")
            time.sleep(PAUSE_S)


def migrate(
    dsn: str, package: str, schema: str, patience_s: float = RECOVERY_S_MAX, role: str = ""
) -> int:
    """Apply a package's pending migrations to a schema, and return how many there were.

    All run in one transaction, one process at a time. If none is pending nothing is written, so
    that readers can start while Postgres accepts no writes. A Postgres that is recovering gets
    `patience_s` to accept the connection. Errors: Failed if it does not, or if we waited 60 s for
    our turn; ValueError if an applied migration was changed.
    """
    statements = load_statements("shared", "postgres.sql")
    with (
        translate_outages(f"cannot migrate {schema}"),
        connect_sync(dsn, patience_s, role) as connection,
        connection.transaction(),
    ):
        if not _find_pending(connection, package, schema):
            return 0
        connection.execute(statements["await_turn"].encode(), {"schema": schema})
        for step in ("create_schema", "create_migration", "enter_schema"):
            connection.execute(_compose(step, schema=schema))
        pending = _find_pending(connection, package, schema)
        record = _compose("record_migration", schema=schema)
        for migration in pending:
            connection.execute(migration.text.encode())
            name, digest = migration.name, migration.digest
            values = {"number": migration.number, "name": name, "digest": digest}
            connection.execute(record, values)
    return len(pending)


async def advance_checkpoint(
    connection: AsyncConnection[Any], name: str, after: int, last: int
) -> None:
    """Advance a projection's checkpoint, at the start of the transaction that writes the batch.

    The row is in `checkpoint(name, seq)` of the connection's schema. Errors: CheckpointConflict.
    """
    status = connection.info.transaction_status
    assert status == TransactionStatus.INTRANS, (
        "a checkpoint must move inside the batch's transaction"
    )
    statement = load_statements("shared", "postgres.sql")["claim"].encode()
    cursor = await connection.execute(statement, {"name": name, "after": after, "last": last})
    if cursor.rowcount != 1:
        raise CheckpointConflict(name, after)


OLDEST_POSTGRES = 150_000


def find_database_problems(dsn: str) -> list[str]:
    """Return what is wrong with a database and the role that the connection string names."""
    try:
        with Connection.connect(
            dsn, **_connection_parameters("public", CONNECT_S_MAX)
        ) as connection:
            statement = load_statements("shared", "postgres.sql")["describe_server"]
            row = connection.execute(statement).fetchone()
    except (psycopg.Error, ValueError) as error:
        return [f"cannot connect to Postgres: {error}"]
    assert row is not None, "the statement returns one row"
    version, is_standby, role, is_superuser, has_tables = row
    problems = list[str]()
    if version < OLDEST_POSTGRES:
        problems.append(f"Postgres {version // 10_000} is too old: expected 15 or later")
    if is_standby:
        problems.append("this server is a standby and accepts no writes: name the primary")
    if is_superuser:
        problems.append(
            f"role {role} is a superuser: use the role of this service, such as warpboard_ingest"
        )
    elif not has_tables:
        problems.append(
            f"role {role} may use no table: run python -m shared.database, which creates the roles "
            "and what they need, and name one of them, such as warpboard_ingest"
        )
    return problems


class TlsServer(NamedTuple):
    """A server whose certificate a DSN verifies; `ca` None: with the system's CAs."""

    host: str
    address: str
    port: str
    ca: str | None
    is_name_verified: bool


def read_tls_servers(dsn: str) -> list[TlsServer]:
    """Return the servers of a DSN that verifies certificates; none if it does not, or is wrong.

    One without `sslrootcert` is not checked: libpq looks for that in the user's home then.
    """
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        return []
    mode, ca = parameters.get("sslmode", ""), parameters.get("sslrootcert")
    if ca is None or not mode.startswith("verify-"):
        return []
    hosts = parameters.get("host", "").split(",")
    addresses = parameters.get("hostaddr", ",".join(hosts)).split(",")
    ports = parameters.get("port", DEFAULT_PORT).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if not len(hosts) == len(addresses) == len(ports):
        return []
    return [
        TlsServer(host, address, port, None if ca == "system" else ca, mode == "verify-full")
        for host, address, port in zip(hosts, addresses, ports, strict=True)
    ]


class WriteProbe:
    """Tests whether Postgres accepts writes, by updating the only row of `accounts.register`.

    `trouble` is why it does not, "" if it does; `register` is the id in that row, by which a
    replaced database is recognised.
    """

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool
        self.trouble = ""
        self.register = ""

    async def look(self) -> None:
        """Write once. Errors: MissingTables."""
        statement = load_statements("shared", "postgres.sql")["probe"].encode()
        try:
            async with borrow_connection(
                self.pool, "Postgres accepts no writes", within_s=PROBE_S_MAX
            ) as connection:
                row = await (await connection.execute(statement)).fetchone()
        except MissingTables:
            self.trouble = "the database was replaced by one without our tables"
            raise
        except Failed as failed:
            self.trouble = str(failed)
            return
        assert row is not None, "the migration creates the register's row"
        self.trouble, self.register = "", str(row[0])

    async def run(
        self, report_unhealthy: HealthReporter, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        """Probe without end and report to /healthz; `prepare` migrates a replaced database."""
        while True:
            try:
                await self.look()
            except MissingTables as missing:
                warn_rarely(_log, "register", "recreating the tables: %s", missing)
                report_unhealthy(DATABASE, self.trouble)
                with suppress(Failed):
                    await prepare()
            else:
                report_unhealthy(DATABASE, self.trouble or None)
            await asyncio.sleep(PROBE_EVERY_S)


@dataclass(frozen=True)
class PostgresOutbox:
    """Which event caused which effect, in the table `outbox` of the pool's schema."""

    pool: AsyncConnectionPool

    async def begin(self, event: str, target: str) -> bool:
        """Record that an effect begins; False if it is already done. Errors: Failed."""
        return bool(await self._execute("begin", event=event, target=target))

    async def mark(self, event: str, target: str) -> None:
        """Record that an effect is done. Errors: Failed."""
        await self._execute("mark", event=event, target=target)

    async def pending(self) -> int:
        """Count effects that began and are not done. Errors: Failed."""
        return int(await self._execute("pending"))

    async def _execute(self, statement: str, **values: str) -> Any:
        """Execute a statement and return its single value, None if it has none."""
        text = load_statements("shared", "outbox.sql")[statement].encode()
        async with borrow_connection(self.pool, "the outbox cannot be reached") as connection:
            cursor = await connection.execute(text, values)
            row = await cursor.fetchone() if cursor.description else None
        return row[0] if row else None
