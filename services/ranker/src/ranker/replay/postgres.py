"""Two schemas of one projection: compares them and switches their names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql

from shared.errors import Refused
from shared.postgres import connect, load_statements, translate_outages


class Schemas:
    """The live schema, the fresh one beside it, and the old one that a switch leaves."""

    def __init__(self, connection: AsyncConnection[Any], live: str, name: str) -> None:
        self.connection = connection
        self.live = live
        self.fresh = f"{live}_fresh"
        self.old = f"{live}_old"
        self.name = name
        self._sql = load_statements("ranker.replay", "replay.sql")

    async def take_turn(self) -> None:
        """Become the only replay of this schema, and drop what a killed one left.

        Raises Refused.
        """
        if not await self._fetch_value("take_turn", {"schema": self.live}):
            raise Refused(
                "replay_runs", f"another replay of {self.name} is running: wait until it ends"
            )
        await self._run("drop", schema=self.fresh)

    async def end_turn(self) -> None:
        """Drop what this replay created and let the next one begin."""
        await self._run("drop", schema=self.fresh)
        await self._fetch_value("end_turn", {"schema": self.live})

    async def exists(self) -> bool:
        """Whether there is a live schema; a new version of the code has none yet."""
        return bool(await self._fetch_value("exists", {"schema": self.live}))

    async def checkpoint(self, schema: str) -> int:
        """The checkpoint of a schema."""
        return int(await self._fetch_value("checkpoint", {"name": self.name}, schema=schema))

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """A transaction in which the live schema's projector waits; readers do not."""
        async with self.connection.transaction():
            await self._run("patience")
            if await self.exists():
                await self._run("hold", schema=self.live)
            yield

    async def tables(self, schema: str) -> dict[str, int]:
        """Every compared table of the fresh schema, with its number of rows in `schema`."""
        cursor = await self.connection.execute(self._sql["tables"].encode(), {"schema": self.fresh})
        names = [name for (name,) in await cursor.fetchall()]
        return {
            table: int(await self._fetch_value("rows", {}, schema=schema, table=table))
            for table in names
        }

    async def lacking(self, here: str, there: str, table: str, limit: int) -> list[str]:
        """Rows of a table that one schema has and the other lacks."""
        statement = self._compose("lacking", schema=here, other=there, table=table)
        cursor = await self.connection.execute(statement, {"limit": limit})
        return [row for (row,) in await cursor.fetchall()]

    async def switch(self) -> None:
        """Give the fresh schema the live one's name, within `held`: all readers see it at once."""
        if await self.exists():
            await self._run("drop", schema=self.old)
            await self._run("rename", schema=self.live, name=self.old)
        await self._run("rename", schema=self.fresh, name=self.live)

    async def _run(self, statement: str, **identifiers: str) -> None:
        await self.connection.execute(self._compose(statement, **identifiers))

    async def _fetch_value(
        self, statement: str, values: dict[str, object], **identifiers: str
    ) -> Any:
        text = self._compose(statement, **identifiers)
        row = await (await self.connection.execute(text, values)).fetchone()
        assert row is not None, f"{statement} always has a row"
        return row[0]

    def _compose(self, statement: str, **identifiers: str) -> sql.Composed:
        quoted = {key: sql.Identifier(value) for key, value in identifiers.items()}
        return sql.SQL(self._sql[statement]).format(**quoted)


@asynccontextmanager
async def open_schemas(dsn: str, live: str, name: str) -> AsyncIterator[Schemas]:
    """The schemas of a projection, on a connection of their own. Raises Failed."""
    with translate_outages("the replay cannot continue"):
        async with await connect(dsn) as connection:
            yield Schemas(connection, live, name)
