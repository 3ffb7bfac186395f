"""The read models in Postgres: one transaction per batch, which also moves the checkpoint."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg import AsyncConnection, AsyncCursor, DataError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from ranker.domain.changes import LeaderboardRanks, apply_rejudge, preview_rejudge
from ranker.domain.fold import find_required_rows, fold
from ranker.domain.goals import HELD_WITH_SCORE
from ranker.domain.rows import (
    DecodedEvent,
    Item,
    LeaderboardKey,
    RequiredRows,
    RowCache,
    Rows,
    Run,
    Submission,
)
from ranker.service.decisions import BatchChange, DueRejudge, PendingDecision, Unfoldable
from ranker.service.leaderboard import RANKED_MAX, rank_top
from ranker.service.places import update_places
from shared.clock import now
from shared.errors import Refused
from shared.event_log import platform_time
from shared.postgres import (
    CheckpointConflict,
    borrow_connection,
    connect,
    load_statements,
    translate_outages,
)

Row = dict[str, Any]
Cursor = AsyncCursor[Any]
RowType = TypeVar("RowType", Submission, Run, Item)
PROJECTION = "ranker"
# Increase the number when the meaning of a table changes: the new schema is folded from event 1.
SCHEMA = "rm_ranker_v9"
UNREADABLE_TABLES = (
    "the read models cannot be read",
    "the read models cannot be read for a moment; ask again",
)
# The only statement that changes a submission's row.
HOLD_LIFTED = "hold_lifted"
# Earlier states of entries are kept a little longer than a cursor is valid.
HISTORY_S = 3900.0
HISTORY_PAUSE_S = 60.0
# So many submissions' entries are updated at once in a rebuild, in a statement of about a second.
DEFERRED_SUBMISSIONS_MAX = 30_000
# Statistics are collected after so many changed entries, then after ANALYZE_GROWTH times as many.
CHANGED_MIN, ANALYZE_GROWTH = 500, 4
# Errors that an event may cause in a fold, or its row in a table; a broken connection is none.
FOLD_ERRORS = (
    msgspec.MsgspecError,
    ArithmeticError,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
    DataError,
    psycopg.IntegrityError,
)


class PreparedBatch(NamedTuple):
    """A folded batch that is not written yet: its first and last event, its rows, also as JSON."""

    first: int
    last: int
    rows: Rows
    texts: dict[str, str]


class ReadModels:
    """The writing side: one connection, whose search_path names the schema.

    It belongs to one task; other tasks read it through `ReadsBetweenWrites`. With `defer_entries`,
    batches leave entries and places as they are until `update_entries`: a rebuild has no readers.
    """

    def __init__(self, connection: AsyncConnection[Any], *, defer_entries: bool = False) -> None:
        self.connection = connection
        self.deferred_rows = Rows() if defer_entries else None
        self.transaction = asyncio.Lock()
        self.sql = load_statements("ranker", "project.sql")
        self.reads = load_statements("ranker", "read.sql")
        self.places = load_statements("ranker", "place.sql")
        self.history_trimmed_at = now()
        self.changes_count, self.analyze_at = 0, CHANGED_MIN
        self.cache = RowCache()
        self.table: int | None = None
        self._prepared: PreparedBatch | None = None

    async def checkpoint(self) -> int:
        """The sequence of the last folded event."""
        row = await (await self.connection.execute(self.reads["checkpoint"].encode())).fetchone()
        assert row is not None, "the migration creates the checkpoint's row"
        return int(row[0])

    async def check_checkpoint(self, seq: int) -> None:
        """Raise Fenced if the last folded event is another one; see the port."""
        if await self.checkpoint() != seq:
            raise CheckpointConflict(PROJECTION, seq)

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """Run a named statement of sql/read.sql and return its rows."""
        return await self._rows(self.reads[statement], values)

    async def write(self, after: int, batch: Sequence[DecodedEvent]) -> BatchChange:
        """Fold a batch, all or nothing; see the port. Raises Fenced or Unfoldable."""
        first, last = batch[0].event.seq, batch[-1].event.seq
        prepared, self._prepared = self._prepared, None
        if prepared is not None and (prepared.first, prepared.last) != (first, last):
            self.cache.forget()
            prepared = None
        try:
            rows, boards = await self._write_batch(after, batch, prepared)
        except BaseException as error:
            self.cache.forget()
            self._prepared = None
            if isinstance(error, FOLD_ERRORS):
                reason = str(error).strip() or type(error).__name__
                raise Unfoldable(first, f"{type(error).__name__}: {reason}") from error
            raise
        if prepared is None:
            self.cache.keep(rows, last)
            for step in rows.steps:
                if step.statement == HOLD_LIFTED:
                    self.cache.drop(step.values["id"])
        if self.deferred_rows is not None:
            await self._defer_entries(self.deferred_rows, rows)
        return BatchChange(boards, rows.is_end_due, rows.is_draft_due, rows.met)

    async def update_entries(self) -> None:
        """Update the entries and places that batches left as they were."""
        if self.deferred_rows is None:
            return
        deferred, self.deferred_rows = self.deferred_rows, Rows()
        async with self.transaction, self.connection.pipeline(), self.connection.transaction():
            await self.connection.execute(self.sql["analyze"].encode())
            await self._update_entries(deferred, await self.checkpoint(), None, is_ban_over=True)

    async def place(self, statement: str, **values: object) -> list[Row]:
        """Run one statement of sql/place.sql and return its rows."""
        return await self._rows(self.places[statement], values)

    async def write_places(self, statement: str, **values: object) -> None:
        """Run one statement of sql/place.sql that returns no rows."""
        await self.connection.execute(self.places[statement].encode(), values)

    def prepare(self, batch: Sequence[DecodedEvent]) -> None:
        """Fold the batch that is written next, if the row cache has all rows it needs."""
        first, last = batch[0].event.seq, batch[-1].event.seq
        if self._prepared is not None or self.cache.seq != first - 1:
            return
        required = find_required_rows(batch)
        rows = self.cache.recall(required)
        if any(getattr(required, name) for name in required.__slots__):
            return
        try:
            rows = fold(rows, batch)
            texts = _encode_rows(rows)
        except FOLD_ERRORS:
            # `write` fails on it again and names the event.
            self.cache.forget()
            return
        if any(step.statement == HOLD_LIFTED for step in rows.steps):
            # It changes rows past the cache: `write` folds it again and drops them from there.
            self.cache.forget()
            return
        self.cache.keep(rows, last)
        self._prepared = PreparedBatch(first, last, rows, texts)

    async def _write_batch(
        self, after: int, batch: Sequence[DecodedEvent], prepared: PreparedBatch | None
    ) -> tuple[Rows, frozenset[LeaderboardKey]]:
        """Write a batch in one transaction; return its rows and the leaderboards that changed."""
        at, last = platform_time(decoded.event for decoded in batch), batch[-1].event.seq
        async with self.transaction, self.connection.pipeline(), self.connection.transaction():
            if prepared is not None:
                rows = prepared.rows
                is_ban_over = await self._write_prepared(after, prepared, at)
            else:
                loaded, is_ban_over = await self._claim_and_load(after, last, batch, at)
                rows = fold(loaded, batch)
                _check_lifted_holds(rows)
                await self._write_rows(rows, _encode_rows(rows))
            if self.deferred_rows is not None:
                return rows, frozenset()
            return rows, await self._update_entries(rows, last, at, is_ban_over=is_ban_over)

    async def _defer_entries(self, deferred: Rows, rows: Rows) -> None:
        deferred.touched |= rows.touched
        deferred.banned |= rows.banned
        deferred.merged |= rows.merged
        deferred.dueled |= rows.dueled
        if len(deferred.touched) >= DEFERRED_SUBMISSIONS_MAX:
            await self.update_entries()

    async def _write_prepared(
        self, after: int, prepared: PreparedBatch, at: datetime | None
    ) -> bool:
        """Write a prepared batch without waiting; return whether a ban expired. Raises Fenced."""
        claim = await self._claim(after, prepared.last, at)
        await self._write_rows(prepared.rows, prepared.texts)
        checkpoint_row = await claim.fetchone()
        if checkpoint_row is None or self.table not in (None, checkpoint_row[0]):
            raise CheckpointConflict(PROJECTION, after)
        self.table = checkpoint_row[0]
        return bool(checkpoint_row[1])

    async def _claim_and_load(
        self, after: int, last: int, batch: Sequence[DecodedEvent], at: datetime | None
    ) -> tuple[Rows, bool]:
        """Move the checkpoint and load the rows that a batch needs. Raises Fenced.

        Also returns whether a ban expired since. Cached rows count only while nobody else wrote the
        tables, and the tables are the same ones.
        """
        if after != self.cache.seq:
            self.cache.forget()
        required = find_required_rows(batch)
        rows = self.cache.recall(required)
        claim = await self._claim(after, last, at)
        loading = await self._load(required)
        checkpoint_row = await claim.fetchone()
        if checkpoint_row is None:
            raise CheckpointConflict(PROJECTION, after)
        if self.table != checkpoint_row[0]:
            self.table, rows = checkpoint_row[0], Rows()
            loading = await self._load(find_required_rows(batch))
        return await _add_loaded(loading, rows), checkpoint_row[1]

    async def check_writable(self) -> None:
        """Rewrite the checkpoint unchanged. Raises Failed if Postgres accepts no writes."""
        await self.connection.execute(self.sql["touch"].encode(), {"name": PROJECTION})

    async def park(self, seq: int, reason: str) -> None:
        """Record the event at which the projection stopped."""
        values = {"projection": PROJECTION, "seq": seq, "error": reason}
        await self.connection.execute(self.sql["park"].encode(), values)

    async def skip(self, seq: int) -> None:
        """Continue without an event. Raises Fenced."""
        async with self.transaction, self.connection.transaction():
            if await (await self._claim(seq - 1, seq)).fetchone() is None:
                raise CheckpointConflict(PROJECTION, seq - 1)
            values = {"projection": PROJECTION, "seq": seq}
            await self.connection.execute(self.sql["unpark"].encode(), values)

    async def undecided(self, limit: int) -> list[PendingDecision]:
        """The submissions that wait for a decision, oldest first."""
        rows = await self._rows(self.sql["undecided"], {"limit": limit})
        return [PendingDecision.from_row(row, row["id"]) for row in rows]

    async def undecided_items(self, limit: int) -> list[PendingDecision]:
        """The items of rejudges that wait for a decision."""
        rows = await self._rows(self.sql["undecided_items"], {"limit": limit})
        return [
            PendingDecision.from_row(row, row["submission"])._replace(
                rejudge=row["rejudge"],
                is_retime=row["is_retime"],
                given_up=row["why"] if row["state"] == "given_up" else None,
            )
            for row in rows
        ]

    async def unpreviewed(self) -> list[DueRejudge]:
        """The rejudges under another version that wait for their preview."""
        return [DueRejudge(**row) for row in await self._rows(self.sql["unpreviewed"], {})]

    async def preview(self, due: DueRejudge) -> Row:
        """What a rejudge would change: apply it, compare, and roll back."""
        at = now()
        changes: Row = {}
        async with self.transaction, self.connection.transaction(force_rollback=True):
            required = RequiredRows(rejudges={due.id}, ended={due.id})
            loaded = await _add_loaded(await self._load(required), Rows())
            rows = apply_rejudge(loaded, due.id, (due.version, at))
            items = await self._read_items(due, rows)
            gpus = {item["gpu"] for item in items}
            before = {gpu: await self._read_ranks(due, due.from_number, gpu, at) for gpu in gpus}
            await self._write_rows(rows, _encode_rows(rows))
            await self._update_entries(rows, due.version, None)
            after = {gpu: await self._read_ranks(due, due.to_number, gpu, at) for gpu in gpus}
            changes = preview_rejudge(items, before, after)
        return {"rejudge": due.id, **due._asdict(), **changes}

    async def _claim(self, after: int, last: int, at: datetime | None = None) -> Cursor:
        """Move the checkpoint; returns its table, or no row if another instance moved it."""
        values = {"name": PROJECTION, "after": after, "last": last, "at": at}
        return await self.connection.execute(self.sql["claim"].encode(), values)

    async def _load(self, required: RequiredRows) -> list[Cursor]:
        values = {name: list(getattr(required, name)) for name in required.__slots__}
        if not any(values.values()):
            return []
        return [
            await self.connection.execute(self.sql[name].encode(), values)
            for name in ("load_submissions", "load_runs", "load_items")
        ]

    async def _write_rows(self, rows: Rows, texts: dict[str, str]) -> None:
        for name, text in texts.items():
            await self.connection.execute(self.sql[name].encode(), {"rows": text})
        for step in rows.steps:
            await self.connection.execute(self.sql[step.statement].encode(), step.values)

    async def _update_entries(
        self, rows: Rows, seq: int, at: datetime | None, *, is_ban_over: bool = False
    ) -> frozenset[LeaderboardKey]:
        keys: list[Sequence[Any]] = []
        if rows.banned:
            values = {"accounts": list(rows.banned)}
            sql = self.sql["boards_of_accounts"].encode()
            keys += await (await self.connection.execute(sql, values)).fetchall()
        is_recent = at is not None and (now() - at).total_seconds() < HISTORY_S
        history: Row = {"seq": seq, "at": now(), "is_recent": is_recent}
        changed: list[Row] = []
        if rows.touched or rows.merged:
            changed += await self._choose_entries(rows, history)
        if rows.banned or is_ban_over:
            changed += await self.place("end_bans", banned=list(rows.banned), **history)
        dueled: list[Row] = []
        if rows.dueled:
            dueled = await self.place("sources_dueled", duels=list(rows.dueled))
        if changed or dueled:
            await self._analyze(len(changed))
            await update_places(self, changed, dueled)
        if changed:
            await self._trim_history(seq, is_recent=is_recent)
        keys += [(row["problem"], row["gpu"], row["problem_number"]) for row in changed]
        return frozenset(LeaderboardKey(*key) for key in keys)

    async def _choose_entries(self, rows: Rows, history: Row) -> list[Row]:
        """Pool the results that may have changed, and return the entries that did."""
        touched = set(rows.touched)
        if rows.merged:
            values = {"accounts": list(rows.merged)}
            results = await self._rows(self.sql["results_of_accounts"], values)
            touched.update(row["submission"] for row in results)
        changes = {"touched": list(touched), "merged": list(rows.merged)}
        for name in ("unpool", "pool"):
            await self.connection.execute(self.sql[name].encode(), changes)
        return await self._rows(self.sql["choose_entries"], changes | history)

    async def _analyze(self, changes_count: int) -> None:
        """Collect the statistics of tables that have grown."""
        self.changes_count += changes_count
        if self.changes_count >= self.analyze_at:
            self.analyze_at = ANALYZE_GROWTH * self.changes_count
            await self.connection.execute(self.sql["analyze"].encode())

    async def _trim_history(self, seq: int, *, is_recent: bool) -> None:
        """Delete earlier states of entries that no page can be asked for any more."""
        if not is_recent:
            await self.connection.execute(self.places["begin_before"].encode(), {"seq": seq})
        elif (now() - self.history_trimmed_at).total_seconds() > HISTORY_PAUSE_S:
            self.history_trimmed_at = now()
            values = {"until_at": self.history_trimmed_at - timedelta(seconds=HISTORY_S)}
            await self.connection.execute(self.places["forget_before"].encode(), values)

    async def _read_items(self, due: DueRejudge, rows: Rows) -> list[Row]:
        values = {
            "submissions": [submission for _, submission in rows.items],
            "number": due.from_number,
        }
        old = {
            row["submission"]: row for row in await self._rows(self.reads["results_before"], values)
        }
        drafts = {
            submission: msgspec.structs.asdict(result)
            for (submission, _), result in rows.results.items()
        }
        return [
            {
                "submission": item.submission,
                "number": rows.submissions[item.submission].number,
                "account": item.account,
                "gpu": item.gpu,
                "old": old.get(item.submission),
                "new": drafts.get(item.submission, {"code": "given_up", "reason": item.reason}),
            }
            for item in rows.items.values()
            if item.submission in rows.submissions
        ]

    async def _read_ranks(
        self, due: DueRejudge, number: int, gpu: str, at: datetime
    ) -> LeaderboardRanks:
        placed = await rank_top(self, LeaderboardKey(due.problem, gpu, number), RANKED_MAX, at)
        return LeaderboardRanks(
            {entry.row["account"]: entry.place.rank for entry in placed},
            {entry.row["account"]: entry.row["submission"] for entry in placed},
        )

    async def _rows(self, statement: str, values: Any) -> list[Row]:
        cursor = self.connection.cursor(row_factory=dict_row)
        await cursor.execute(statement.encode(), values)
        return await cursor.fetchall()


def _check_lifted_holds(rows: Rows) -> None:
    """Raise ValueError if a rejudge replaces a result that was held and released before.

    Results are written before statements are run, and of a batch only the last one is. The release
    would not find the result that it lifts, so such a batch has to be divided.
    """
    lifted = {
        step.values["id"]: step.values["seq"]
        for step in reversed(rows.steps)
        if step.statement == HOLD_LIFTED
    }
    for (id_, _), result in rows.results.items() if lifted else ():
        is_replaced = bool(result.rejudge) and id_ in lifted and result.seq > lifted[id_]
        if is_replaced and rows.submissions[id_].code in HELD_WITH_SCORE:
            raise ValueError(f"{id_}: a rejudge follows its release")


def _encode_rows(rows: Rows) -> dict[str, str]:
    rows_by_statement: dict[str, Sequence[msgspec.Struct]] = {
        "keep_submissions": list(rows.submissions.values()),
        "keep_runs": [rows.runs[id_] for id_ in rows.changed],
        "keep_items": list(rows.items.values()),
        "keep_results": list(rows.results.values()),
    }
    return {
        name: msgspec.json.encode(values).decode()
        for name, values in rows_by_statement.items()
        if values
    }


async def _add_loaded(loading: Sequence[Cursor], rows: Rows) -> Rows:
    if loading:
        submissions, runs, items = [await cursor.fetchall() for cursor in loading]
        rows.add(_decode_rows(submissions, Submission), _decode_rows(items, Item))
        rows.runs |= {run.id: run for run in _decode_rows(runs, Run)}
    return rows


def _decode_rows(rows: Iterable[Sequence[str]], kind: type[RowType]) -> list[RowType]:
    decode = msgspec.json.Decoder(kind).decode
    return [decode(text) for (text,) in rows]


@asynccontextmanager
async def open_read_models(
    dsn: str, schema: str, *, defer_entries: bool = False
) -> AsyncIterator[ReadModels]:
    """Open the writing side on its own connection. Raises Failed when Postgres is lost."""
    with translate_outages("the read models cannot be written"):
        async with await connect(dsn, schema) as connection:
            models = ReadModels(connection, defer_entries=defer_entries)
            for setting in ("plan_once", "commit_lazily"):
                await connection.execute(models.sql[setting].encode())
            yield models


@dataclass(frozen=True)
class ReadsBetweenWrites:
    """Reads on the writer's connection, for other tasks: they wait for an open transaction."""

    models: ReadModels

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """Run a named statement of sql/read.sql and return its rows. Raises Failed."""
        with translate_outages(UNREADABLE_TABLES[0]):
            async with self.models.transaction:
                return await self.models.rows(statement, **values)


@dataclass(frozen=True)
class Reader:
    """The reading side: a pool, so that many readers can query at once."""

    pool: AsyncConnectionPool

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """Run a named statement of sql/read.sql and return its rows. Raises Failed."""
        sql = load_statements("ranker", "read.sql")[statement].encode()
        try:
            async with borrow_connection(self.pool, *UNREADABLE_TABLES) as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(sql, values)
                return await cursor.fetchall()
        except DataError as error:
            raise Refused(
                "invalid_request", f"Postgres does not accept this value: {error}"
            ) from error
