"""The roles of Postgres, tried cell by cell, and a password that changes while a service works."""

import asyncio
import itertools
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import Connection, errors, sql
from psycopg.conninfo import make_conninfo

from ranker.archive.postgres import PACKAGE, SCHEMA
from shared.database import postgres as database
from shared.database.roles import (
    BACKUP,
    DISCORD_EDGE,
    GRANTS,
    INGEST,
    OWNED,
    OWNER,
    RANKER,
    SERVICES,
)
from shared.errors import Failed, Refused
from shared.postgres import await_migrations, borrow_connection, create_pool, migrate
from tests.support.servers import postgres_database

pytestmark = pytest.mark.server

ROLES = (OWNER, *SERVICES, BACKUP)
PASSWORDS = {role: f"secret-of-{role}" for role in ROLES}
PRIVATE = {
    "accounts.password": ["hash"],
    "accounts.token": ["name", "prefix"],
    "accounts.invite": ["code"],
    "accounts.login_state": ["verifier"],
    "accounts.idempotency": ["body"],
}
# Statements without an effect, which need the privilege all the same.
TRIALS = {
    "select": "select {column} from {table} limit 0",
    "insert": "insert into {table} ({column}) overriding system value select null where false",
    "update": "update {table} set {column} = default where false",
    "delete": "delete from {table} where false",
    "truncate": "truncate {table} cascade",
}
# A replay creates schemas; a backup of the whole server has the verifiers of passwords.
FURTHER = (
    (RANKER, "create schema accounts_2"),
    (BACKUP, "select rolpassword from pg_authid"),
)


class Prepared(NamedTuple):
    """A prepared database, as a superuser sees it, and the DSN of each role."""

    dsn: str
    dsns: Mapping[str, str]


@pytest.fixture(scope="module")
def prepared(postgres_server_dsn: str) -> Iterator[Prepared]:
    """A database as the command prepares it, with the schemas that ranker creates."""
    with postgres_database(postgres_server_dsn) as dsn:
        done = database.prepare(dsn, PASSWORDS)
        assert set(done.migrations) == set(OWNED)
        dsns = {
            role: make_conninfo(dsn, user=role, password=password)
            for role, password in PASSWORDS.items()
        }
        migrate(dsns[RANKER], PACKAGE, SCHEMA)
        yield Prepared(dsn, dsns)


def read_columns(dsn: str) -> dict[str, list[str]]:
    """Every table of every schema of ours, with its columns."""
    query = (
        "select table_schema || '.' || table_name, array_agg(column_name::text)"
        " from information_schema.columns where table_schema = any(%s) group by 1 order by 1"
    )
    with psycopg.connect(dsn) as connection:
        return dict(connection.execute(query, [[*OWNED, SCHEMA]]).fetchall())


def is_allowed(connection: Connection[Any], statement: str, table: str, column: str) -> bool:
    """Whether the role may run a statement, which is rolled back."""
    query = sql.SQL(statement).format(
        table=sql.Identifier(*table.split(".")), column=sql.Identifier(column)
    )
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(query)
    except errors.InsufficientPrivilege:
        return False
    return True


def parse_grant(grant: str, columns: list[str]) -> dict[str, set[str]]:
    """The columns of each privilege that a grant gives; a privilege of rows has all."""
    parts = re.findall(r"(\w+)(?: \(([^)]*)\))?", grant)
    return {name: set(named.split(", ") if named else columns) for name, named in parts}


def expected_privileges(role: str, table: str, columns: list[str]) -> dict[str, set[str]]:
    """The columns of each privilege that a role should have."""
    owner = OWNER if table.partition(".")[0] in OWNED else RANKER
    if role == owner:
        return {privilege: set(columns) for privilege in TRIALS}
    if role == BACKUP:
        return {"select": set(columns)}
    return parse_grant(GRANTS.get(role, {}).get(table, ""), columns)


@pytest.mark.parametrize("role", ROLES)
def test_each_cell_of_the_table_is_what_postgres_allows(prepared: Prepared, role: str) -> None:
    wrong = []
    with psycopg.connect(prepared.dsns[role], autocommit=True) as connection:
        for table, columns in read_columns(prepared.dsn).items():
            expected = expected_privileges(role, table, columns)
            for (privilege, statement), column in itertools.product(TRIALS.items(), columns):
                is_expected = column in expected.get(privilege, ())
                if is_allowed(connection, statement, table, column) != is_expected:
                    wrong.append(f"{privilege} {table}.{column}: expected {is_expected}")
    assert not wrong, "\n".join(wrong)


def test_every_table_is_in_the_table_of_grants(prepared: Prepared) -> None:
    granted = {table for tables in GRANTS.values() for table in tables}
    owned = {table for table in read_columns(prepared.dsn) if table.split(".")[0] in OWNED}
    assert granted == owned


def test_private_texts_are_for_those_who_need_them(prepared: Prepared) -> None:
    for role in (RANKER, DISCORD_EDGE):
        with psycopg.connect(prepared.dsns[role], autocommit=True) as connection:
            for table, columns in PRIVATE.items():
                for column in columns:
                    assert not is_allowed(connection, TRIALS["select"], table, column), table


@pytest.mark.parametrize("role", [INGEST, RANKER, DISCORD_EDGE, BACKUP])
@pytest.mark.parametrize(
    "statement",
    [
        "create table public.mine (a int)",
        "create temp table mine (a int)",
        "create schema accounts_2",
        "create role mine",
        "create database mine",
        "set role warpboard_owner",
        "set role postgres",
        "alter role warpboard_ingest superuser",
        "alter table accounts.participant add column mine int",
        "drop table accounts.participant",
        "create function accounts.mine() returns int language sql as 'select 1'",
        "copy (select 1) to program 'true'",
        "select pg_read_file('postgresql.conf')",
        "select rolpassword from pg_authid",
    ],
)
def test_no_role_gets_further(prepared: Prepared, role: str, statement: str) -> None:
    if (role, statement) in FURTHER:
        return
    with (
        psycopg.connect(prepared.dsns[role], autocommit=True) as connection,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


@pytest.mark.usefixtures("prepared")
def test_a_role_of_another_database_may_not_connect(postgres_server_dsn: str) -> None:
    with postgres_database(postgres_server_dsn) as other:
        database.prepare(other, {})
        with psycopg.connect(other) as connection:
            connection.execute("create role stranger login password 'stranger'")
            connection.commit()
        try:
            dsn = make_conninfo(other, user="stranger", password="stranger")
            with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
                psycopg.connect(dsn)
        finally:
            with psycopg.connect(other) as connection:
                connection.execute("drop role stranger")


def test_the_owner_repeats_it_and_a_service_may_not(prepared: Prepared) -> None:
    done = database.prepare(prepared.dsns[OWNER], {})
    assert (done.created_roles, set(done.migrations.values())) == ((), {0})
    with pytest.raises(
        Refused, match="warpboard_ingest may not set passwords: connect as a superuser"
    ):
        database.prepare(prepared.dsns[INGEST], PASSWORDS)
    with pytest.raises(Failed, match="permission denied"):
        database.prepare(prepared.dsns[INGEST], {})


def test_a_superuser_takes_over_what_another_role_created(prepared: Prepared) -> None:
    with postgres_database(prepared.dsn) as dsn:
        migrate(dsn, "shared", "accounts")
        migrate(dsn, PACKAGE, SCHEMA)
        with psycopg.connect(dsn) as connection:
            connection.execute("insert into accounts.participant values ('a', 'ada')")
            grant = sql.SQL("grant create on database {} to warpboard_owner")
            connection.execute(grant.format(sql.Identifier(connection.info.dbname)))
        as_owner = make_conninfo(dsn, user=OWNER, password=PASSWORDS[OWNER])
        with pytest.raises(Refused, match="the schema accounts belongs to postgres: repeat it as"):
            database.prepare(as_owner, {})
        assert database.prepare(dsn, {}).migrations["accounts"] == 0
        as_ranker = make_conninfo(dsn, user=RANKER, password=PASSWORDS[RANKER])
        with psycopg.connect(as_ranker) as connection:
            names = connection.execute("select name from accounts.participant").fetchall()
            assert names == [("ada",)]
            connection.execute("drop schema archive cascade")


async def test_a_service_waits_for_the_owner_to_migrate(postgres_server_dsn: str) -> None:
    with postgres_database(postgres_server_dsn) as dsn:
        with pytest.raises(
            Failed, match=r"accounts lacks 0001_accounts\.sql: run `python -m shared"
        ):
            await_migrations(dsn, "shared", "accounts", 0.0)
        waiting = asyncio.create_task(
            asyncio.to_thread(await_migrations, dsn, "shared", "accounts")
        )
        await asyncio.to_thread(database.prepare, dsn, {})
        await asyncio.wait_for(waiting, 10)


async def test_a_password_changes_while_a_service_works(prepared: Prepared, tmp_path: Path) -> None:
    passfile = tmp_path / "ingest.pgpass"
    old = make_conninfo(prepared.dsn, user=INGEST, password=PASSWORDS[INGEST])
    database.rotate(prepared.dsn, INGEST, passfile)
    assert stat.S_IMODE(passfile.stat().st_mode) == 0o600
    dsn = re.sub(r" ?password='?[^ ]+", "", make_conninfo(old, passfile=str(passfile)))
    done, is_over = 0, False
    async with create_pool(dsn, 1, 4) as pool:

        async def work() -> None:
            nonlocal done
            while not is_over:
                async with borrow_connection(pool, "the test's reads") as connection:
                    await connection.execute(b"select name from accounts.participant limit 1")
                    done += 1
                    # So that connections are made all the time, also with the new password.
                    await connection.close()

        working = [asyncio.create_task(work()) for _ in range(4)]
        for _ in range(3):
            before = done
            await asyncio.to_thread(database.rotate, prepared.dsn, INGEST, passfile)
            while done < before + 20:
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in working)
        is_over = True
        await asyncio.gather(*working)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(old)
    database.prepare(prepared.dsn, PASSWORDS)


def test_the_command_says_what_it_did(postgres_server_dsn: str) -> None:
    with postgres_database(postgres_server_dsn) as dsn:
        command = [sys.executable, "-m", "shared.database"]
        environ = {"WARPBOARD_DATABASE_POSTGRES_DSN": dsn}
        result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[0].startswith("new roles: ")
        assert lines[1:] == ["accounts: 1 new migrations", "discord_edge: 2 new migrations"]
        environ["WARPBOARD_DATABASE_POSTGRES_DSN"] = make_conninfo(dsn, password="wrong")
        refused = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert refused.returncode == 3
        assert "password authentication failed" in refused.stderr
