"""The read models in Postgres: one transaction a batch, the checkpoint in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from psycopg import AsyncConnection, DataError, OperationalError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from ranker.domain.conclusion import Verdict
from ranker.domain.projection import Step
from shared.errors import Failed, Refused
from shared.events import CaseResult
from shared.postgres import claim, connect, statements

Row = dict[str, Any]
PROJECTION = "ranker"


@dataclass(frozen=True)
class Undecided:
    """A submission whose run has a verdict and which has no end yet."""

    submission: str
    version: int
    verdict: Verdict


class ReadModels:
    """The writing side: one connection, whose search_path names the schema."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.sql = statements("ranker", "project.sql")
        self.reads = statements("ranker", "read.sql")

    async def checkpoint(self) -> int:
        """The last sequence that is folded in."""
        row = await (await self.connection.execute(self.reads["checkpoint"].encode())).fetchone()
        assert row is not None, "the migration makes the checkpoint's row"
        return int(row[0])

    async def write(self, after: int, last: int, steps: Sequence[Step]) -> None:
        """Fold a batch in, all or nothing. Errors: Fenced if another projector moved on."""
        async with self.connection.transaction():
            await claim(self.connection, PROJECTION, after, last)
            async with self.connection.pipeline():
                for step in steps:
                    await self.connection.execute(self.sql[step.statement].encode(), step.values)

    async def undecided(self) -> list[Undecided]:
        """The submissions that wait for the decision on eligibility, oldest first, at most 100."""
        cursor = self.connection.cursor(row_factory=dict_row)
        await cursor.execute(self.sql["undecided"].encode())
        return [_undecided(row) for row in await cursor.fetchall()]

    async def picture(self) -> tuple[int, list[Row], list[Row]]:
        """The sequence, every entry with its place, every submission's outcome: of one moment."""
        cursor = self.connection.cursor(row_factory=dict_row)
        async with self.connection.transaction():
            await cursor.execute(b"set transaction isolation level repeatable read")
            seq = await self.checkpoint()
            await cursor.execute(self.reads["standings"].encode())
            entries = await cursor.fetchall()
            await cursor.execute(self.reads["outcomes"].encode())
            return seq, entries, await cursor.fetchall()


def _undecided(row: Row) -> Undecided:
    verdict = Verdict(
        mode=row["mode"],
        job=row["job"],
        run=row["run"],
        verdict=row["verdict"],
        stage=row["stage"],
        reason=row["reason"],
        cases=msgspec.convert(row["cases"], list[CaseResult]),
        ranking_by=row["ranking_by"],
        level=row["level"] or "",
        tier=row["tier"] or "",
        sigma_run=row["sigma_run"],
        tie_us=row["tie_us"],
    )
    return Undecided(row["id"], row["version"], verdict)


@asynccontextmanager
async def read_models(dsn: str, schema: str) -> AsyncIterator[ReadModels]:
    """The writing side, on a connection of its own. Errors: Failed when Postgres goes away."""
    try:
        async with await connect(dsn, schema) as connection:
            yield ReadModels(connection)
    except OperationalError as error:
        raise Failed(f"the read models cannot be written: {error}") from error


@dataclass(frozen=True)
class Reader:
    """The reading side: a pool, so that many can ask at once."""

    pool: AsyncConnectionPool

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a named statement of sql/read.sql. Errors: Failed."""
        sql = statements("ranker", "read.sql")[statement].encode()
        try:
            async with self.pool.connection() as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(sql, values)
                return await cursor.fetchall()
        except DataError as error:
            raise Refused("invalid_request", f"no such value: {error}") from error
        except (OperationalError, PoolTimeout, PoolClosed) as error:
            raise Failed("the read models cannot be read for a moment; ask again") from error
