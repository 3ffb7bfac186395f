"""Two schemas of one projection: what differs between them, and which one has the name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql

from shared.errors import Refused
from shared.postgres import connect, statements, translate_outages


class Schemas:
    """The live schema, the fresh one beside it, and the old one that a switch leaves."""

    def __init__(self, connection: AsyncConnection[Any], live: str, name: str) -> None:
        self.connection = connection
        self.live = live
        self.fresh = f"{live}_fresh"
        self.old = f"{live}_old"
        self.name = name
        self._sql = statements("ranker.replay", "replay.sql")

    async def take_turn(self) -> None:
        """Be the only replay of this schema, and drop what a killed one left. Errors: Refused."""
        if not await self._one("take_turn", {"schema": self.live}):
            raise Refused("replay_runs", f"another replay of {self.name} runs: wait for its end")
        await self.drop(self.fresh)

    async def end_turn(self) -> None:
        """Drop what this replay made and let the next one begin."""
        await self.drop(self.fresh)
        await self._one("end_turn", {"schema": self.live})

    async def drop(self, schema: str) -> None:
        """Remove a schema, if it is there."""
        await self._run("drop", schema=schema)

    async def exists(self) -> bool:
        """Whether there is a live schema at all; a new version of the code has none yet."""
        return bool(await self._one("exists", {"schema": self.live}))

    async def checkpoint(self, schema: str) -> int:
        """How far a schema is folded."""
        return int(await self._one("checkpoint", {"name": self.name}, schema=schema))

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """A transaction in which the live schema's projector waits; readers do not."""
        async with self.connection.transaction():
            await self._run("patience")
            if await self.exists():
                await self._run("hold", schema=self.live)
            yield

    async def tables(self, schema: str) -> dict[str, int]:
        """Every table of the fresh schema that is compared, with its number of rows in one."""
        cursor = await self.connection.execute(self._sql["tables"].encode(), {"schema": self.fresh})
        names = [name for (name,) in await cursor.fetchall()]
        return {
            table: int(await self._one("rows", {}, schema=schema, table=table)) for table in names
        }

    async def lacking(self, here: str, there: str, table: str, limit: int) -> list[str]:
        """Rows of a table that one schema has and the other has not."""
        statement = self._composed("lacking", schema=here, other=there, table=table)
        cursor = await self.connection.execute(statement, {"limit": limit})
        return [row for (row,) in await cursor.fetchall()]

    async def switch(self) -> None:
        """Give the fresh schema the live one's name, within `held`: all readers see it at once."""
        if await self.exists():
            await self.drop(self.old)
            await self._run("rename", schema=self.live, name=self.old)
        await self._run("rename", schema=self.fresh, name=self.live)

    async def _run(self, statement: str, **identifiers: str) -> None:
        await self.connection.execute(self._composed(statement, **identifiers))

    async def _one(self, statement: str, values: dict[str, object], **identifiers: str) -> Any:
        text = self._composed(statement, **identifiers)
        row = await (await self.connection.execute(text, values)).fetchone()
        assert row is not None, f"{statement} always has a row"
        return row[0]

    def _composed(self, statement: str, **identifiers: str) -> sql.Composed:
        quoted = {key: sql.Identifier(value) for key, value in identifiers.items()}
        return sql.SQL(self._sql[statement]).format(**quoted)


@asynccontextmanager
async def schemas(dsn: str, live: str, name: str) -> AsyncIterator[Schemas]:
    """The schemas of a projection, on a connection of its own. Errors: Failed."""
    with translate_outages("the replay cannot go on"):
        async with await connect(dsn) as connection:
            yield Schemas(connection, live, name)
