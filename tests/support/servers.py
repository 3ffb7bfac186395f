"""One nats-server and one Postgres per worker, and how each test gets a clean part of them."""

import itertools
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier, Literal

from ranker.archive import postgres as archive
from ranker.postgres import SCHEMA
from ranker.retrieval import postgres as texts
from shared.database.roles import OWNED
from shared.errors import Failed
from shared.postgres import migrate
from shared.servers.nats import CONSUMERS_MAX, NatsServer, find_binary
from shared.servers.postgresql import Postgres, find_binaries

ACCOUNTS_MAX = 400
# The Postgres version in which the number of hashes became a setting.
SCRAM_ITERATIONS_SINCE = 160000
# The schemas that tests find migrated, each with the package of its migrations.
SCHEMAS = {
    "accounts": "shared",
    SCHEMA: "ranker",
    archive.SCHEMA: archive.PACKAGE,
    texts.SCHEMA: texts.PACKAGE,
}


def skip_without_nats() -> None:
    """Skip a test, or all of a fixture, where there is no nats-server."""
    try:
        find_binary()
    except Failed as failed:
        pytest.skip(str(failed))


def skip_without_postgres() -> None:
    """Skip a test, or all of a fixture, where there is no Postgres."""
    try:
        find_binaries()
    except Failed as failed:
        pytest.skip(str(failed))


class SharedNats(NatsServer):
    """A nats-server with many JetStream accounts: each test gets one, which nobody else sees.

    It does not sync to disk, since nothing outlives the tests.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._numbers = itertools.count()

    def configuration(self) -> dict[str, object]:
        """The server's settings, with an account and a user for each test."""
        settings = super().configuration()
        for name in self.authority.server_settings(""):
            del settings[name]
        names = [f"test{number}" for number in range(ACCOUNTS_MAX)]
        settings["accounts"] = {
            name: {"jetstream": "enabled", "users": [{"user": name, "password": "test"}]}
            for name in names
        }
        settings["jetstream"] = {
            "store_dir": str(self.folder / "store"),
            "limits": {"default_max_consumers": CONSUMERS_MAX},
        }
        return settings

    def fresh_url(self) -> str:
        """The URL of an account that no test has used."""
        number = next(self._numbers)
        assert number < ACCOUNTS_MAX, "raise ACCOUNTS_MAX: each test takes an account"
        return f"nats://test{number}:test@127.0.0.1:{self.port}"


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Start a Postgres, and yield the DSN of its first database."""
    server = Postgres(folder)
    try:
        dsn = server.start()
        assert server.process is not None, "it was started"
        # Nothing outlives the tests, so commits need not wait for the disk.
        with (server.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("fsync = off\nautovacuum = off\n")
        server.process.send_signal(signal.SIGHUP)
        yield dsn
    finally:
        server.stop()


@contextmanager
def postgres_database(dsn: str) -> Iterator[str]:
    """Create a database, yield its DSN, and drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SQL("create database {}").format(Identifier(name)))
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            drop = SQL("drop database {} with (force)").format(Identifier(name))
            connection.execute(drop)


@contextmanager
def prepared_database(dsn: str) -> Iterator[str]:
    """Create a database with the schemas of the owner, yield its DSN, and drop it afterwards."""
    with postgres_database(dsn) as database:
        for schema, package in OWNED.items():
            migrate(database, package, schema)
        yield database


def drop_schema(dsn: str, schema: str) -> None:
    """Drop a schema with everything in it."""
    with psycopg.connect(dsn) as connection:
        connection.execute(SQL("drop schema if exists {} cascade").format(Identifier(schema)))


def make_logins_cheap(dsn: str) -> None:
    """Hash the password once instead of 4096 times.

    A client repeats that for each connection, which took 3.1 ms of its processor time and now
    takes 0.5 ms; the tests make thousands.
    """
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version >= SCRAM_ITERATIONS_SINCE:
            connection.execute("set scram_iterations = 1")
            password = Literal(connection.info.password)
            connection.execute(SQL("alter role postgres password {}").format(password))


class SharedDatabase:
    """A migrated database that one test after the other has for itself.

    To empty its tables takes some milliseconds. To migrate one takes a hundred times as long, so
    that is repeated only after a test that changed the tables themselves.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._schemas = list(SCHEMAS)
        self._migrate()

    def close(self) -> None:
        """Close the connection that empties the database."""
        self._connection.close()

    def reset(self) -> None:
        """Disconnect everybody, and make the database as it was after the migrations."""
        self._call("clear", self._schemas)
        if self._call("shape", self._schemas) == self._migrated_shape:
            self._call("refill", self._schemas)
        else:
            self._call("clear", [])
            self._connection.execute(b"drop schema seeds cascade")
            self._migrate()

    def _migrate(self) -> None:
        for schema, package in SCHEMAS.items():
            migrate(self.dsn, package, schema)
        self._connection.execute((Path(__file__).parent / "reset.sql").read_bytes())
        self._migrated_shape = self._call("shape", self._schemas)

    def _call(self, function: LiteralString, schemas: list[str]) -> object:
        query = f"select seeds.{function}(%s)"
        row = self._connection.execute(query, [schemas]).fetchone()
        return row and row[0]
