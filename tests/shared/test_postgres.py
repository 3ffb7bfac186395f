"""Migrations run once each, a checkpoint has one owner, and nothing waits without a limit."""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.postgres import (
    CheckpointConflict,
    advance_checkpoint,
    borrow_connection,
    connect,
    create_pool,
    load_statements,
    migrate,
)
from tests.support.servers import drop_schema
from tests.support.waits import eventually

pytestmark = pytest.mark.server

FIRST = "create table checkpoint (name text primary key, seq bigint not null);\n"
ROW = "insert into checkpoint (name, seq) values ('board', 0);\n"


class Package:
    """A package with migrations and statements, written by a test."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.folder = root / name
        (self.folder / "migrations").mkdir(parents=True)
        (self.folder / "sql").mkdir()
        (self.folder / "__init__.py").touch()

    def migration(self, name: str, text: str) -> None:
        (self.folder / "migrations" / name).write_text(text)

    def sql(self, file: str, text: str) -> None:
        (self.folder / "sql" / file).write_text(text)


@pytest.fixture
def package(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Package]:
    name = f"package_{abs(hash(request.node.name))}"
    sys.path.insert(0, str(tmp_path))
    new_package = Package(tmp_path, name)
    new_package.migration("0001_checkpoint.sql", FIRST)
    yield new_package
    sys.path.remove(str(tmp_path))
    sys.modules.pop(name, None)


async def checkpoint(dsn: str, schema: str) -> int:
    async with await connect(dsn, schema) as connection:
        row = await (await connection.execute(b"select seq from checkpoint")).fetchone()
    assert row is not None
    return int(row[0])


async def test_each_migration_runs_once_in_its_schema(package: Package, postgres_dsn: str) -> None:
    assert migrate(postgres_dsn, package.name, "rm_one") == 1
    package.migration("0002_row.sql", ROW)
    assert migrate(postgres_dsn, package.name, "rm_one") == 1
    assert migrate(postgres_dsn, package.name, "rm_one") == 0
    assert migrate(postgres_dsn, package.name, "rm_two") == 2
    assert await checkpoint(postgres_dsn, "rm_one") == 0


def test_a_broken_migration_leaves_nothing(package: Package, postgres_dsn: str) -> None:
    package.migration("0002_broken.sql", ROW + "drop table nowhere;")
    with pytest.raises(Exception, match='table "nowhere" does not exist'):
        migrate(postgres_dsn, package.name, "rm")
    package.migration("0002_broken.sql", ROW)
    assert migrate(postgres_dsn, package.name, "rm") == 2


def test_a_migration_that_ran_is_never_changed(package: Package, postgres_dsn: str) -> None:
    migrate(postgres_dsn, package.name, "rm")
    package.migration("0001_checkpoint.sql", f"{FIRST}-- better\n")
    with pytest.raises(ValueError, match=r"rm ran another 0001_checkpoint\.sql"):
        migrate(postgres_dsn, package.name, "rm")


def test_a_number_left_out_is_told(package: Package, postgres_dsn: str) -> None:
    package.migration("0003_late.sql", ROW)
    with pytest.raises(ValueError, match=r"are \[1, 3\]"):
        migrate(postgres_dsn, package.name, "rm")


def test_several_may_migrate_at_once(package: Package, postgres_dsn: str) -> None:
    package.migration("0002_row.sql", ROW)
    with ThreadPoolExecutor(8) as several:
        ran = several.map(lambda _: migrate(postgres_dsn, package.name, "rm"), range(8))
    assert sorted(ran) == [0] * 7 + [2]


def test_a_schema_can_be_dropped_and_made_again(package: Package, postgres_dsn: str) -> None:
    migrate(postgres_dsn, package.name, "rm")
    drop_schema(postgres_dsn, "rm")
    assert migrate(postgres_dsn, package.name, "rm") == 1


async def test_of_two_claims_of_a_checkpoint_one_is_fenced(
    package: Package, postgres_dsn: str
) -> None:
    package.migration("0002_row.sql", ROW)
    migrate(postgres_dsn, package.name, "rm")

    async def project(last: int) -> None:
        async with await connect(postgres_dsn, "rm") as connection, connection.transaction():
            await advance_checkpoint(connection, "board", 0, last)

    ends = await asyncio.gather(*(project(last) for last in (7, 7, 7)), return_exceptions=True)
    assert [type(end) for end in ends if end is not None] == [
        CheckpointConflict,
        CheckpointConflict,
    ]
    assert await checkpoint(postgres_dsn, "rm") == 7


async def test_a_fenced_batch_leaves_nothing(package: Package, postgres_dsn: str) -> None:
    package.migration("0002_row.sql", ROW)
    migrate(postgres_dsn, package.name, "rm")

    async def project() -> None:
        async with await connect(postgres_dsn, "rm") as connection, connection.transaction():
            await connection.execute(b"update checkpoint set seq = 9")
            await advance_checkpoint(connection, "board", 3, 4)

    with pytest.raises(CheckpointConflict, match="board is no longer at 3"):
        await project()
    assert await checkpoint(postgres_dsn, "rm") == 0


async def test_a_claim_outside_a_transaction_is_a_bug(postgres_dsn: str) -> None:
    async with await connect(postgres_dsn) as connection:
        with pytest.raises(AssertionError, match="must move inside"):
            await advance_checkpoint(connection, "board", 0, 1)


async def test_a_pool_gives_connections_with_limits(postgres_dsn: str) -> None:
    async with (
        create_pool(postgres_dsn, 1, 2) as connections,
        connections.connection() as connection,
    ):
        row = await (await connection.execute(b"show statement_timeout")).fetchone()
    assert row == ("10s",)


@pytest.mark.parametrize("steps", range(4))
async def test_a_borrower_that_is_cancelled_as_it_gets_a_connection_ends(
    postgres_dsn: str, steps: int
) -> None:
    async with create_pool(postgres_dsn, 1, 1) as connections:

        async def borrow_for_ever() -> None:
            while True:
                async with borrow_connection(connections, "a test"):
                    await asyncio.sleep(0)

        async with borrow_connection(connections, "a test"):
            borrower = asyncio.create_task(borrow_for_ever())
            await eventually(lambda: connections.get_stats().get("requests_waiting"))
        for _ in range(steps):
            await asyncio.sleep(0)
        borrower.cancel()
        ended, _ = await asyncio.wait({borrower}, timeout=10.0)
        while not borrower.done():
            borrower.cancel()
            await asyncio.sleep(0.01)
    assert ended, "it dropped its cancellation"


async def test_no_postgres_is_failed_not_a_foreign_error(tmp_path: Path) -> None:
    dsn = f"postgresql:///postgres?host={tmp_path}"
    with pytest.raises(Failed, match="cannot connect to Postgres"):
        await connect(dsn)
    with pytest.raises(Failed, match="cannot migrate rm"):
        migrate(dsn, "shared", "rm", patience_s=0.5)


async def test_a_schema_is_a_plain_name(postgres_dsn: str) -> None:
    with pytest.raises(ValueError, match="is not a schema"):
        await connect(postgres_dsn, "public -c log_statement=all")


def test_a_statement_is_found_by_its_name(package: Package) -> None:
    package.sql(
        "read.sql",
        "-- name: both\n-- A subquery.\nselect (:one), 2::int;\n\n"
        "-- name: one\n-- The number.\nselect 1;\n",
    )
    assert load_statements(package.name, "read.sql") == {
        "both": "select (select 1), 2::int", "one": "select 1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-- name: one\n-- A.\nselect 1;\n-- name: one\n-- B.\nselect 2;", "two statements named"),
        ("-- name: one\nselect 1;", "no comment line describes one"),
        ("-- name: one\n-- A.\nselect (:two);", "no statement named two"),
    ],
)
def test_a_badly_named_statement_is_told(package: Package, text: str, told: str) -> None:
    package.sql("bad.sql", text)
    with pytest.raises(ValueError, match=told):
        load_statements(package.name, "bad.sql")
