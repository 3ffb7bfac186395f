"""The archive in Postgres: rows by COPY, the checkpoint in the same transaction."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ranker.domain.kept import Kept, kept
from shared import chain
from shared.errors import Failed
from shared.event_log import Recorded
from shared.postgres import borrow_connection, claim, connect, statements, translate_outages

PACKAGE = "ranker.archive"
SCHEMA = "archive"
NAME = "archive"
AWAY = ("the archive cannot be read", "the archive cannot be read for a moment; ask again")
TYPES = ("int8", "text", "text", "timestamptz", "bytea", "bytea")
SEALS_MAX = 1000
THEN_MAX = 500_000
# So far back one page of what people did looks, and where.
STRETCH_MAX = 20_000
SPOKEN = (
    "audit",
    "moderation",
    "agent",
    "pool",
    "account",
    "quota",
    "problem",
    "rejudge",
    "invite",
)


class Archive:
    """The archive on one connection, whose search_path names the schema."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.sql = {key: sql.encode() for key, sql in statements(PACKAGE, "archive.sql").items()}

    async def head(self) -> tuple[int, bytes]:
        """The last sequence that is archived, and the chain up to it."""
        seq, h = await self._head()
        assert seq == 0 or h is not None, f"the archive's own event {seq} is gone: replay it"
        return seq, h or chain.START

    async def checkpoint(self) -> int:
        """The last sequence that should be archived, whether it is still there or not."""
        return (await self._head())[0]

    async def _head(self) -> tuple[int, bytes | None]:
        row = await (await self.connection.execute(self.sql["head"])).fetchone()
        assert row is not None, "the migration makes the checkpoint's row"
        seq, h = row
        return int(seq), None if h is None else bytes(h)

    async def check_writable(self) -> None:
        """Write the checkpoint as it is. Errors: Failed where Postgres takes no writes."""
        await self.connection.execute(self.sql["touch"])

    async def write(self, after: int, events: Sequence[Recorded]) -> None:
        """Keep a batch, all or nothing. Errors: Fenced.

        The chain so far is read behind the claim, for a replay may have mended it in between.
        """
        async with self.connection.transaction():
            await claim(self.connection, NAME, after, events[-1].seq)
            h = await self.up_to(after)
            async with self.connection.cursor().copy(self.sql["keep"]) as copy:
                copy.set_types(TYPES)
                for event in events:
                    at = event.envelope.at
                    seq, on, id_, body = kept(event).link
                    h = chain.after(h, chain.Link(seq, on, id_, body))
                    await copy.write_row((seq, on, id_, at, body, h))

    async def up_to(self, seq: int) -> bytes:
        """The chain up to an event that is archived."""
        if seq == 0:
            return chain.START
        row = await (await self.connection.execute(self.sql["up_to"], {"seq": seq})).fetchone()
        assert row is not None, f"the archive's own event {seq} is gone: replay it"
        return bytes(row[0])

    async def page(self, after: int, limit: int) -> list[Kept]:
        """The next events after one, at most `limit`, with the chain up to each."""
        values = {"after": after, "limit": limit}
        found = await self.connection.execute(self.sql["page"], values, binary=True)
        return [Kept(*row) for row in await found.fetchall()]

    async def newest_seal(self) -> Recorded | None:
        """The last seal that is archived."""
        row = await (await self.connection.execute(self.sql["newest_seal"])).fetchone()
        return None if row is None else _recorded(*row)


def _recorded(seq: int, on: str, id_: str, body: bytes) -> Recorded:
    return Kept(seq, on, id_, bytes(body)).recorded


@asynccontextmanager
async def archive(dsn: str, schema: str = SCHEMA) -> AsyncIterator[Archive]:
    """The archive on a connection of its own. Errors: Failed when Postgres goes away."""
    with translate_outages("the archive cannot be reached"):
        async with await connect(dsn, schema) as connection:
            found = Archive(connection)
            await connection.execute(found.sql["commit_lazily"])
            yield found


class Shelf:
    """The archive for many readers at once, on connections of the read models."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool

    async def newest(self, limit: int) -> list[Recorded]:
        """The newest seals first, at most 1000. Errors: Failed."""
        rows = await self._rows("seals", {"limit": min(limit, SEALS_MAX)})
        return [_recorded(*row) for row in rows]

    async def some(self, seqs: Sequence[int]) -> list[Recorded]:
        """Those of some events, at most 1000, that are archived, in order. Errors: Failed."""
        return [_recorded(*row) for row in await self._rows("some", {"seqs": list(seqs)})]

    async def spoken(self, before: int) -> tuple[int, list[Recorded]]:
        """What people may have said before a sequence, newest first, and back to which one.

        Errors: Failed.
        """
        start = max(0, before - STRETCH_MAX)
        values = {"start": start, "before": before, "aggregates": list(SPOKEN)}
        return start + 1, [_recorded(*row) for row in await self._rows("spoken", values)]

    async def then(self, problem: str, gpu: str, at: datetime) -> tuple[int, list[Recorded]]:
        """The last sequence at an instant, and all that mattered to a leaderboard. Errors: Failed.

        It reads the whole archive once, in Postgres.
        """
        ((seq,),) = await self._rows("newest_then", {"at": at})
        values = {"problem": problem, "gpu": gpu, "at": at, "limit": THEN_MAX}
        rows = await self._rows("then", values)
        if len(rows) == THEN_MAX:
            raise Failed(f"over {THEN_MAX} events make that leaderboard: audit it instead")
        return int(seq), [_recorded(*row) for row in rows]

    async def _rows(self, statement: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        sql = statements(PACKAGE, "archive.sql")[statement].encode()
        async with borrow_connection(self.pool, *AWAY) as connection:
            return await (await connection.execute(sql, values)).fetchall()
