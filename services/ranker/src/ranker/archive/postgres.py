"""The archive in Postgres: events written by COPY, the checkpoint in the same transaction."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ranker.domain.stored_log import CHAIN_START, StoredEvent, to_stored_event
from shared.errors import Failed
from shared.event_log import RecordedEvent
from shared.events import ContestPublished
from shared.postgres import (
    CheckpointConflict,
    advance_checkpoint,
    borrow_connection,
    connect,
    load_statements,
    translate_outages,
)
from shared.wire import is_genuine

PACKAGE = "ranker.archive"
SCHEMA = "archive"
NAME = "archive"
UNREACHABLE = ("the archive cannot be read", "the archive cannot be read for a moment; try again")
TYPES = ("int8", "text", "text", "timestamptz", "bytea", "bytea")
SEALS_MAX = 1000
PAST_EVENTS_MAX = 500_000
# How many sequences one page of operators' acts covers, and in which aggregates.
STRETCH_MAX = 20_000
ACT_AGGREGATES = (
    *("audit", "moderation", "agent", "pool", "account"),
    *("quota", "problem", "rejudge", "invite"),
)


class Archive:
    """The archive on one connection, whose search_path names the schema."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.sql = {
            key: sql.encode() for key, sql in load_statements(PACKAGE, "archive.sql").items()
        }

    async def head(self) -> tuple[int, bytes]:
        """The last archived sequence, and the chain up to it."""
        seq, h = await self._read_head()
        assert seq == 0 or h is not None, (
            f"the archive's own event {seq} is missing: replay the archive"
        )
        return seq, h or CHAIN_START

    async def checkpoint(self) -> int:
        """The last sequence that should be archived, whether it is still there or not."""
        return (await self._read_head())[0]

    async def check_checkpoint(self, seq: int) -> None:
        """Raise Fenced if the archive ends elsewhere, Failed if Postgres is lost."""
        if await self.checkpoint() != seq:
            raise CheckpointConflict(NAME, seq)

    async def _read_head(self) -> tuple[int, bytes | None]:
        row = await (await self.connection.execute(self.sql["head"])).fetchone()
        assert row is not None, "the migration creates the checkpoint's row"
        seq, h = row
        return int(seq), None if h is None else bytes(h)

    async def check_writable(self) -> None:
        """Rewrite the checkpoint unchanged. Raises Failed if Postgres accepts no writes."""
        await self.connection.execute(self.sql["touch"])

    async def write(self, after: int, events: Sequence[RecordedEvent]) -> None:
        """Store a batch, all or nothing. Raises Fenced.

        The chain so far is read after the claim, because a replay may have repaired it in between.
        """
        async with self.connection.transaction():
            await advance_checkpoint(self.connection, NAME, after, events[-1].seq)
            h = await self.up_to(after)
            async with self.connection.cursor().copy(self.sql["keep"]) as copy:
                copy.set_types(TYPES)
                for event in events:
                    stored = to_stored_event(event)
                    h = stored.chain_after(h)
                    await copy.write_row(
                        (stored.seq, stored.subject, stored.id, event.envelope.at, stored.body, h)
                    )

    async def up_to(self, seq: int) -> bytes:
        """The chain up to an archived event."""
        chain = await self.find_chain(seq)
        assert chain is not None, f"the archive's own event {seq} is missing: replay the archive"
        return chain

    async def find_chain(self, seq: int) -> bytes | None:
        """The chain up to an event; None if it is not archived."""
        if seq == 0:
            return CHAIN_START
        row = await (await self.connection.execute(self.sql["up_to"], {"seq": seq})).fetchone()
        return None if row is None else bytes(row[0])

    async def page(self, after: int, limit: int) -> list[StoredEvent]:
        """The next events after a sequence, at most `limit`, with the chain up to each."""
        values = {"after": after, "limit": limit}
        cursor = await self.connection.execute(self.sql["page"], values, binary=True)
        return [StoredEvent(*row) for row in await cursor.fetchall()]

    async def claim_scrub(self) -> bool:
        """Claim the background scrub for this connection; False while another one has it."""
        row = await (await self.connection.execute(self.sql["claim_scrub"])).fetchone()
        return row is not None and bool(row[0])

    async def newest_seal(self) -> RecordedEvent | None:
        """The newest archived seal."""
        row = await (await self.connection.execute(self.sql["newest_seal"])).fetchone()
        return None if row is None else _make_recorded(*row)


def _make_recorded(seq: int, subject_name: str, id_: str, body: bytes) -> RecordedEvent:
    return StoredEvent(seq, subject_name, id_, bytes(body)).recorded


def _list_problems(history: Iterable[RecordedEvent]) -> list[str]:
    """The problems that the definitions of a contest ever had."""
    definitions = [
        event.fact.contest
        for event in history
        if event.envelope.type == "ContestPublished"
        and is_genuine(event.envelope)
        and isinstance(event.fact, ContestPublished)
    ]
    return sorted({problem.slug for contest in definitions for problem in contest.problems})


@asynccontextmanager
async def open_archive(dsn: str, schema: str = SCHEMA) -> AsyncIterator[Archive]:
    """Open the archive on its own connection. Raises Failed when Postgres is lost."""
    with translate_outages("the archive cannot be reached"):
        async with await connect(dsn, schema) as connection:
            opened = Archive(connection)
            await connection.execute(opened.sql["commit_lazily"])
            yield opened


class ArchiveReader:
    """The archive for many readers at once, on connections of the read models."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool

    async def read_seals(self, limit: int) -> list[RecordedEvent]:
        """The newest seals first, at most 1000. Raises Failed."""
        rows = await self._rows("seals", {"limit": min(limit, SEALS_MAX)})
        return [_make_recorded(*row) for row in rows]

    async def read_events(self, seqs: Sequence[int]) -> list[RecordedEvent]:
        """The archived ones of at most 1000 events, in order. Raises Failed."""
        return [_make_recorded(*row) for row in await self._rows("some", {"seqs": list(seqs)})]

    async def read_acts(self, before: int) -> tuple[int, list[RecordedEvent]]:
        """Operators' acts before a sequence, newest first, and the first sequence covered.

        Raises Failed.
        """
        start = max(0, before - STRETCH_MAX)
        values = {"start": start, "before": before, "aggregates": list(ACT_AGGREGATES)}
        return start + 1, [_make_recorded(*row) for row in await self._rows("spoken", values)]

    async def read_past(
        self, problem: str, gpu: str, at: datetime
    ) -> tuple[int, list[RecordedEvent]]:
        """The last sequence at an instant, and all events that matter to a leaderboard.

        Reads the whole archive once, in Postgres. Raises Failed.
        """
        return await self._read_then("then", at, {"problem": problem, "gpu": gpu})

    async def read_contest(self, contest: str, at: datetime) -> tuple[int, list[RecordedEvent]]:
        """The last sequence at an instant, and all events that matter to a contest's standing.

        They are about the problems that the contest had by then. Raises Failed.
        """
        values: dict[str, object] = {"contest": contest, "at": at, "limit": PAST_EVENTS_MAX}
        history = await self._rows("contest_history_then", values)
        problems = _list_problems(_make_recorded(*row) for row in history)
        return await self._read_then("contest_then", at, {"contest": contest, "problems": problems})

    async def read_rating(self, at: datetime) -> tuple[int, list[RecordedEvent]]:
        """The last sequence at an instant, and all events that matter to the rating.

        Raises Failed.
        """
        return await self._read_then("rating_then", at, {})

    async def _read_then(
        self, statement: str, at: datetime, values: dict[str, object]
    ) -> tuple[int, list[RecordedEvent]]:
        ((seq,),) = await self._rows("newest_then", {"at": at})
        rows = await self._rows(statement, values | {"at": at, "limit": PAST_EVENTS_MAX})
        if len(rows) == PAST_EVENTS_MAX:
            reason = f"over {PAST_EVENTS_MAX} events: use `warpboard server audit --as-of` instead"
            raise Failed(reason)
        return int(seq), [_make_recorded(*row) for row in rows]

    async def _rows(self, statement: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        sql = load_statements(PACKAGE, "archive.sql")[statement].encode()
        async with borrow_connection(self.pool, *UNREACHABLE) as connection:
            return await (await connection.execute(sql, values)).fetchall()
