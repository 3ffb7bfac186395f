"""The read models in Postgres: one transaction a batch, the checkpoint in it."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg import AsyncConnection, AsyncCursor, DataError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from ranker.domain.batch import Needs, Rows, Told, needs
from ranker.domain.fold import fold
from ranker.domain.outcomes import apply
from ranker.domain.rejudging import Ranks, diff
from ranker.domain.remembered import Remembered
from ranker.domain.rows import Item, Run, Submission
from ranker.service import Board, Change, Due, Unfoldable, Waiting
from ranker.service.placing import keep_places
from ranker.service.top import RANKED_MAX, top
from shared.clock import now
from shared.errors import Refused
from shared.postgres import Fenced, borrow_connection, connect, statements, translate_outages
from shared.wire import is_of_agent

Row = dict[str, Any]
Cursor = AsyncCursor[Any]
Kept = TypeVar("Kept", Submission, Run, Item)
PROJECTION = "ranker"
AWAY = ("the read models cannot be read", "the read models cannot be read for a moment; ask again")
# The one step that changes a submission's row.
LIFTED = "floor_lifted"
# What entries were is kept for as long as a cursor is good, and a little longer.
BEFORE_S = 3900.0
BEFORE_PAUSE_S = 60.0
# What an event may do to a fold, or its row to a table; a connection that broke is none of them.
POISON = (
    msgspec.MsgspecError,
    ArithmeticError,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
    DataError,
    psycopg.IntegrityError,
)


class Prepared(NamedTuple):
    """A batch that is folded and not written: its first and last event, its rows, as JSON too."""

    first: int
    last: int
    rows: Rows
    texts: dict[str, str]


class ReadModels:
    """The writing side: one connection, whose search_path names the schema."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.sql = statements("ranker", "project.sql")
        self.reads = statements("ranker", "read.sql")
        self.places = statements("ranker", "place.sql")
        self.forgotten_at = now()
        self.remembered = Remembered()
        self.table: int | None = None
        self._prepared: Prepared | None = None

    async def checkpoint(self) -> int:
        """The last sequence that is folded in."""
        row = await (await self.connection.execute(self.reads["checkpoint"].encode())).fetchone()
        assert row is not None, "the migration makes the checkpoint's row"
        return int(row[0])

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a named statement of sql/read.sql."""
        return await self._rows(self.reads[statement], values)

    async def write(self, after: int, batch: Sequence[Told]) -> Change:
        """Fold a batch in, all or nothing; see the port. Errors: Fenced; Unfoldable."""
        first, last = batch[0].event.seq, batch[-1].event.seq
        prepared, self._prepared = self._prepared, None
        if prepared is not None and (prepared.first, prepared.last) != (first, last):
            self.remembered.forget()
            prepared = None
        try:
            with _unfoldable(first):
                async with self.connection.pipeline(), self.connection.transaction():
                    at = log_time(batch)
                    if prepared is not None:
                        rows = prepared.rows
                        is_ban_over = await self._store(after, prepared, at)
                    else:
                        loaded, is_ban_over = await self._claimed(after, last, batch, at)
                        rows = fold(loaded, batch)
                        await self._keep(rows, _texts(rows))
                    found = await self._rank(rows, last, at, is_ban_over=is_ban_over)
        except BaseException:
            self.remembered.forget()
            self._prepared = None
            raise
        if prepared is None:
            self.remembered.keep(rows, last)
            for step in rows.steps:
                if step.statement == LIFTED:
                    self.remembered.drop(step.values["id"])
        met = frozenset(Board(*one) for one in rows.met)
        return Change(found, rows.is_end_due, rows.is_draft_due, met)

    async def place(self, statement: str, **values: object) -> list[Row]:
        """Run one statement of sql/place.sql; its rows."""
        return await self._rows(self.places[statement], values)

    async def write_places(self, statement: str, **values: object) -> None:
        """Run one statement of sql/place.sql that has no rows."""
        await self.connection.execute(self.places[statement].encode(), values)

    def prepare(self, batch: Sequence[Told]) -> None:
        """Fold the batch that is written next, if what is remembered has all it needs."""
        first, last = batch[0].event.seq, batch[-1].event.seq
        if self._prepared is not None or self.remembered.seq != first - 1:
            return
        wanted = needs(batch)
        rows = self.remembered.recall(wanted)
        if any(getattr(wanted, name) for name in wanted.__slots__):
            return
        try:
            rows = fold(rows, batch)
            texts = _texts(rows)
        except POISON:
            # `write` meets it again, and says which event it is.
            self.remembered.forget()
            return
        if any(step.statement == LIFTED for step in rows.steps):
            # It changes rows behind what is remembered: `write` folds it again and drops them.
            self.remembered.forget()
            return
        self.remembered.keep(rows, last)
        self._prepared = Prepared(first, last, rows, texts)

    async def _store(self, after: int, prepared: Prepared, at: datetime | None) -> bool:
        """Write what is folded without a wait; whether a ban is over. Errors: Fenced."""
        claimed = await self._claim(after, prepared.last, at)
        await self._keep(prepared.rows, prepared.texts)
        moved = await claimed.fetchone()
        if moved is None or self.table not in (None, moved[0]):
            raise Fenced(PROJECTION, after)
        self.table = moved[0]
        return bool(moved[1])

    async def _claimed(
        self, after: int, last: int, batch: Sequence[Told], at: datetime | None
    ) -> tuple[Rows, bool]:
        """Move the checkpoint, first of all, and have the rows that a batch needs. Errors: Fenced.

        And whether a ban is over since.
        What is remembered counts while nobody but this wrote the tables, and they are the same.
        """
        if after != self.remembered.seq:
            self.remembered.forget()
        wanted = needs(batch)
        rows = self.remembered.recall(wanted)
        claimed = await self._claim(after, last, at)
        loading = await self._load(wanted)
        moved = await claimed.fetchone()
        if moved is None:
            raise Fenced(PROJECTION, after)
        if self.table != moved[0]:
            self.table, rows = moved[0], Rows()
            loading = await self._load(needs(batch))
        return await _loaded(loading, rows), moved[1]

    async def check_writable(self) -> None:
        """Write the checkpoint as it is. Errors: Failed where Postgres takes no writes."""
        await self.connection.execute(self.sql["touch"].encode(), {"name": PROJECTION})

    async def park(self, seq: int, reason: str) -> None:
        """Keep the event at which the projection stopped."""
        values = {"projection": PROJECTION, "seq": seq, "error": reason}
        await self.connection.execute(self.sql["park"].encode(), values)

    async def skip(self, seq: int) -> None:
        """Go on without an event. Errors: Fenced."""
        async with self.connection.transaction():
            if await (await self._claim(seq - 1, seq)).fetchone() is None:
                raise Fenced(PROJECTION, seq - 1)
            values = {"projection": PROJECTION, "seq": seq}
            await self.connection.execute(self.sql["unpark"].encode(), values)

    async def undecided(self, limit: int) -> list[Waiting]:
        """The submissions that wait for a decision, oldest first."""
        rows = await self._rows(self.sql["undecided"], {"limit": limit})
        return [Waiting.of(row, row["id"]) for row in rows]

    async def undecided_items(self, limit: int) -> list[Waiting]:
        """The places in rejudges that wait for a decision."""
        rows = await self._rows(self.sql["undecided_items"], {"limit": limit})
        return [
            Waiting.of(row, row["submission"])._replace(
                rejudge=row["rejudge"],
                given_up=row["why"] if row["state"] == "given_up" else None,
            )
            for row in rows
        ]

    async def unpreviewed(self) -> list[Due]:
        """The rejudges that wait for their preview."""
        return [Due(**row) for row in await self._rows(self.sql["unpreviewed"], {})]

    async def preview(self, due: Due) -> Row:
        """What a rejudge would change: it is applied here, looked at, and rolled back."""
        at = now()
        said: Row = {}
        async with self.connection.transaction(force_rollback=True):
            wanted = Needs(rejudges={due.id}, applied={due.id})
            loaded = await _loaded(await self._load(wanted), Rows())
            rows = apply(loaded, due.id, (due.version, at))
            items = await self._items(due, rows)
            gpus = {item["gpu"] for item in items}
            before = {gpu: await self._ranks(due, due.from_number, gpu, at) for gpu in gpus}
            await self._keep(rows, _texts(rows))
            await self._rank(rows, due.version, None)
            after = {gpu: await self._ranks(due, due.to_number, gpu, at) for gpu in gpus}
            said = diff(items, before, after)
        return {"rejudge": due.id, **due._asdict(), **said}

    async def picture(self) -> tuple[int, list[Row], list[Row]]:
        """The sequence, every entry with its place, every submission's outcome: of one moment."""
        async with self.connection.transaction():
            await self.connection.execute(b"set transaction isolation level repeatable read")
            seq = await self.checkpoint()
            return seq, await self.rows("standings"), await self.rows("outcomes")

    async def _claim(self, after: int, last: int, at: datetime | None = None) -> Cursor:
        """Move the checkpoint; which table it is in, or no row where another one moved it."""
        values = {"name": PROJECTION, "after": after, "last": last, "at": at}
        return await self.connection.execute(self.sql["claim"].encode(), values)

    async def _load(self, wanted: Needs) -> list[Cursor]:
        """Ask for the rows that a batch touches and does not make."""
        values = {name: list(getattr(wanted, name)) for name in wanted.__slots__}
        if not any(values.values()):
            return []
        return [
            await self.connection.execute(self.sql[name].encode(), values)
            for name in ("load_submissions", "load_runs", "load_items")
        ]

    async def _keep(self, rows: Rows, texts: dict[str, str]) -> None:
        for name, text in texts.items():
            await self.connection.execute(self.sql[name].encode(), {"rows": text})
        for step in rows.steps:
            await self.connection.execute(self.sql[step.statement].encode(), step.values)

    async def _rank(
        self, rows: Rows, seq: int, at: datetime | None, *, is_ban_over: bool = False
    ) -> frozenset[Board]:
        """Choose and place the entries again that may be others; the leaderboards that are."""
        boards: list[Sequence[Any]] = []
        if rows.banned:
            values = {"accounts": list(rows.banned)}
            sql = self.sql["boards_of_accounts"].encode()
            boards += await (await self.connection.execute(sql, values)).fetchall()
        is_recent = at is not None and (now() - at).total_seconds() < BEFORE_S
        kept: Row = {"seq": seq, "at": now(), "is_recent": is_recent}
        changed: list[Row] = []
        if rows.touched:
            touched = {"touched": list(rows.touched)}
            for name in ("unpool", "pool"):
                await self.connection.execute(self.sql[name].encode(), touched)
            changed += await self._rows(self.sql["choose_entries"], touched | kept)
        if rows.banned or is_ban_over:
            changed += await self.place("end_bans", banned=list(rows.banned), **kept)
        if changed:
            await keep_places(self, changed)
            await self._forget_before(seq, is_recent=is_recent)
        boards += [(row["problem"], row["gpu"], row["problem_number"]) for row in changed]
        return frozenset(Board(*board) for board in boards)

    async def _forget_before(self, seq: int, *, is_recent: bool) -> None:
        """Let what entries were be forgotten when no page can be asked for that shows it."""
        if not is_recent:
            await self.connection.execute(self.places["begin_before"].encode(), {"seq": seq})
        elif (now() - self.forgotten_at).total_seconds() > BEFORE_PAUSE_S:
            self.forgotten_at = now()
            values = {"until_at": self.forgotten_at - timedelta(seconds=BEFORE_S)}
            await self.connection.execute(self.places["forget_before"].encode(), values)

    async def _items(self, due: Due, rows: Rows) -> list[Row]:
        """The items of a rejudge with their old results and their drafts."""
        values = {"submissions": [one for _, one in rows.items], "number": due.from_number}
        old = {row["submission"]: row for row in await self.rows("results_before", **values)}
        drafts = {one: msgspec.structs.asdict(made) for (one, _), made in rows.results.items()}
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

    async def _ranks(self, due: Due, number: int, gpu: str, at: datetime) -> Ranks:
        placed = await top(self, Board(due.problem, gpu, number), RANKED_MAX, at)
        return Ranks(
            {one.row["account"]: one.place.rank for one in placed},
            {one.row["account"]: one.row["submission"] for one in placed},
        )

    async def _rows(self, statement: str, values: Any) -> list[Row]:
        cursor = self.connection.cursor(row_factory=dict_row)
        await cursor.execute(statement.encode(), values)
        return await cursor.fetchall()


def log_time(batch: Sequence[Told]) -> datetime | None:
    """The newest time that events of the platform itself say; an agent may say any."""
    times = (told.event.envelope for told in batch)
    return max((one.at for one in times if not is_of_agent(one)), default=None)


def _texts(rows: Rows) -> dict[str, str]:
    """What a batch made of its rows, for the statements that keep them."""
    kept: dict[str, Sequence[msgspec.Struct]] = {
        "keep_submissions": list(rows.submissions.values()),
        "keep_runs": [rows.runs[id_] for id_ in rows.changed],
        "keep_items": list(rows.items.values()),
        "keep_results": list(rows.results.values()),
    }
    return {name: msgspec.json.encode(values).decode() for name, values in kept.items() if values}


@contextmanager
def _unfoldable(seq: int) -> Iterator[None]:
    try:
        yield
    except POISON as error:
        reason = str(error).strip() or type(error).__name__
        raise Unfoldable(seq, f"{type(error).__name__}: {reason}") from error


async def _loaded(loading: Sequence[Cursor], rows: Rows) -> Rows:
    """The rows that were asked for, beside those at hand."""
    if loading:
        submissions, runs, items = [await cursor.fetchall() for cursor in loading]
        rows.add(_decoded(submissions, Submission), _decoded(items, Item))
        rows.runs |= {run.id: run for run in _decoded(runs, Run)}
    return rows


def _decoded(found: Iterable[Sequence[str]], kind: type[Kept]) -> list[Kept]:
    decode = msgspec.json.Decoder(kind).decode
    return [decode(text) for (text,) in found]


@asynccontextmanager
async def read_models(dsn: str, schema: str) -> AsyncIterator[ReadModels]:
    """The writing side, on a connection of its own. Errors: Failed when Postgres goes away."""
    with translate_outages("the read models cannot be written"):
        async with await connect(dsn, schema) as connection:
            models = ReadModels(connection)
            for setting in ("plan_once", "commit_lazily"):
                await connection.execute(models.sql[setting].encode())
            yield models


@dataclass(frozen=True)
class Reader:
    """The reading side: a pool, so that many can ask at once."""

    pool: AsyncConnectionPool

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a named statement of sql/read.sql. Errors: Failed."""
        sql = statements("ranker", "read.sql")[statement].encode()
        try:
            async with borrow_connection(self.pool, *AWAY) as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(sql, values)
                return await cursor.fetchall()
        except DataError as error:
            raise Refused("invalid_request", f"no such value: {error}") from error
