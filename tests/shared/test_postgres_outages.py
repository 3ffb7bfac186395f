"""A Postgres that accepts no writes, or goes away, is an outage, never our mistake."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg import errors, sql
from psycopg_pool import AsyncConnectionPool

from discord_edge.notifications.postgres import PostgresLedger
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.rules import CliLogin
from ingest.ports import IdempotentRequest
from ingest.postgres import PostgresAccountStore, PostgresIdempotencyStore
from ranker.archive.postgres import open_archive
from ranker.postgres import SCHEMA, Reader, open_read_models
from ranker.webhooks.postgres import WebhookStore
from shared.clock import now
from shared.errors import Failed
from shared.health import Outage
from shared.postgres import (
    DATABASE,
    PostgresOutbox,
    WriteProbe,
    create_pool,
    is_outage,
    migrate,
)
from tests.support.log_lines import collect_warnings
from tests.support.servers import SCHEMAS as SHARED_SCHEMAS
from tests.support.servers import postgres_database
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.long]

Write = Callable[[AsyncConnectionPool], Awaitable[object]]


class Database:
    """What an operator or an accident does to a whole database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        options = "-c default_transaction_read_only=off"
        self.connection = psycopg.connect(dsn, autocommit=True, options=options)
        self.name = sql.Identifier(self.connection.info.dbname)

    def refuse_writes(self, word: str) -> None:
        """Set read-only `on` or `off` for all future sessions; current ones are ended."""
        statement = sql.SQL("alter database {} set default_transaction_read_only = {}")
        self.connection.execute(statement.format(self.name, sql.SQL(word)))
        self.end_sessions()

    def end_sessions(self) -> None:
        """End all sessions, as a server does that shuts down, or an operator."""
        self.connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


@pytest.fixture
def database(postgres_server_dsn: str) -> Iterator[Database]:
    """A private database: changes to it would outlast the cleaning of a shared one."""
    with postgres_database(postgres_server_dsn) as dsn:
        for schema, package in SHARED_SCHEMAS.items():
            migrate(dsn, package, schema)
        new_database = Database(dsn)
        yield new_database
        new_database.connection.close()


async def _logged_in(connections: AsyncConnectionPool) -> None:
    login = CliLogin("github", "127.0.0.1", now(), now() + timedelta(hours=1))
    await LoginStore(connections).execute("add_cli_login", cli="hash", **vars(login))


WRITES: dict[str, Write] = {
    "a name": lambda it: PostgresAccountStore(it).open_account("ada"),
    "a key": lambda it: PostgresIdempotencyStore(it).begin(
        IdempotentRequest("a", "r", "k", "h", now())
    ),
    "a login": _logged_in,
    "an effect": lambda it: PostgresOutbox(it).begin("e", "t"),
    "a place": lambda it: WebhookStore(it).place(1, now()),
    "a post": lambda it: PostgresLedger(it).keep("n", "1"),
}
SCHEMAS = {"an effect": "accounts", "a post": "discord_edge", "a place": SCHEMA}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_that_a_read_only_server_refuses_may_be_tried_again(
    database: Database, name: str
) -> None:
    if name == "a post":
        migrate(database.dsn, "discord_edge", "discord_edge")
    async with create_pool(database.dsn, 1, 2, SCHEMAS.get(name, "public")) as connections:
        database.refuse_writes("on")
        try:
            with pytest.raises(Failed):
                await WRITES[name](connections)
        finally:
            database.refuse_writes("off")
        await WRITES[name](connections)


async def test_a_session_that_began_read_only_is_not_kept(database: Database) -> None:
    database.refuse_writes("on")
    async with create_pool(database.dsn, 1, 1) as connections:
        people = PostgresAccountStore(connections)
        with pytest.raises(Failed):
            await people.open_account("ada")
        # As a failover does: nobody ends the sessions that are there.
        database.connection.execute(
            sql.SQL("alter database {} set default_transaction_read_only = off").format(
                database.name
            )
        )
        assert await people.open_account("ada")


async def test_reads_go_on_beside_a_read_only_server(database: Database) -> None:
    database.refuse_writes("on")
    async with create_pool(database.dsn, 1, 2, SCHEMA) as connections:
        assert await Reader(connections).rows("checkpoint") == [{"seq": 0}]
        assert await PostgresAccountStore(connections).find_account("ada") is None
    # A service that starts has nothing to migrate.
    assert migrate(database.dsn, "shared", "accounts") == 0


async def test_sessions_that_are_ended_are_replaced(database: Database) -> None:
    async with create_pool(database.dsn, 1, 2, SCHEMA) as connections:
        people = PostgresAccountStore(connections)
        account = await people.open_account("ada")
        database.end_sessions()
        assert await PostgresAccountStore(connections).find_account("ada") == account


async def test_the_writers_of_the_read_models_and_of_the_archive_fail_and_say_why(
    database: Database,
) -> None:
    database.refuse_writes("on")

    @asynccontextmanager
    async def both() -> AsyncIterator[None]:
        async with open_read_models(database.dsn, SCHEMA) as models:
            await models.check_writable()
        yield

    with pytest.raises(Failed, match=r"the read models cannot be written: .* read-only"):
        async with both():
            pass
    with pytest.raises(Failed, match=r"the archive cannot be reached: .* read-only"):
        async with open_archive(database.dsn) as archive:
            await archive.check_writable()
    database.refuse_writes("off")
    async with both(), open_archive(database.dsn) as archive:
        await archive.check_writable()


async def test_health_says_that_nothing_can_be_written_until_it_can(database: Database) -> None:
    reports: list[tuple[str, str | None]] = []
    prepared: list[int] = []

    async def prepare() -> None:
        prepared.append(migrate(database.dsn, "shared", "accounts"))

    async with create_pool(database.dsn, 1, 2) as connections:
        probe = WriteProbe(connections)
        await probe.look()
        register = probe.register
        assert (probe.trouble, bool(register)) == ("", True)
        database.refuse_writes("on")
        await probe.look()
        assert "read-only" in probe.trouble
        database.refuse_writes("off")
        await probe.look()
        assert (probe.trouble, probe.register) == ("", register)
        database.connection.execute("drop schema accounts cascade")
        task = asyncio.create_task(probe.run(lambda *one: reports.append(one), prepare))
        await eventually(lambda: bool(prepared))
        task.cancel()
        assert reports[0] == (DATABASE, "the database was replaced by one without our tables")
        await probe.look()
        assert probe.register != register


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (errors.ReadOnlySqlTransaction, True),
        (errors.AdminShutdown, True),
        (errors.CannotConnectNow, True),
        (errors.DiskFull, True),
        (errors.TooManyConnections, True),
        (errors.OutOfMemory, True),
        (errors.LockNotAvailable, True),
        (errors.QueryCanceled, True),
        (errors.SerializationFailure, True),
        (errors.IoError, True),
        (errors.DataCorrupted, True),
        (errors.UndefinedTable, True),
        (errors.InsufficientPrivilege, True),
        (errors.SyntaxError, False),
        (errors.UndefinedColumn, False),
        (errors.UniqueViolation, False),
        (errors.ForeignKeyViolation, False),
        (errors.InvalidTextRepresentation, False),
        (errors.InFailedSqlTransaction, False),
    ],
)
def test_what_is_an_outage_and_what_a_mistake(error: type[psycopg.Error], is_one: bool) -> None:
    assert is_outage(error()) is is_one


async def test_a_mistake_of_ours_stays_one(database: Database) -> None:
    with pytest.raises(errors.UndefinedColumn):
        async with open_read_models(database.dsn, SCHEMA) as models:
            await models.connection.execute(b"select nothing_of_the_kind from submission")


async def test_a_long_outage_has_longer_pauses_and_one_log_line() -> None:
    reports: list[tuple[str, str | None]] = []
    outage = Outage("a part", lambda *one: reports.append(one), 0.001, 0.004)
    with collect_warnings("shared.health") as messages:
        for _ in range(5):
            await outage.wait(Failed("away"))
        outage.end()
        await outage.wait(Failed("away again"))
    assert reports == [*[("a part", "away")] * 5, ("a part", None), ("a part", "away again")]
    assert messages == ["a part: waiting: away"]
