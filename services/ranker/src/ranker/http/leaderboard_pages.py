"""The pages of a leaderboard: as stored, ranked again, or folded from the archive."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ranker.archive.postgres import ArchiveReader
from ranker.domain.rows import LeaderboardKey
from ranker.domain.score import add_interval
from ranker.domain.standings import Standings
from ranker.domain.ties import assign_places
from ranker.http.responses import Cursor, decode_cursor, encode_cursor, expired_cursor
from ranker.service.leaderboard import (
    RANKED_MAX,
    PlacedEntry,
    make_scored_entries,
    rank_top,
    read_ladder_before,
    read_page,
)
from ranker.service.ports import Reads
from shared.api.audits import LeaderboardRow
from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.events import SubmissionFinished

# Leaderboards whose next pages may be requested; each has at most RANKED_MAX rows.
SNAPSHOTS_MAX = 100
ROWS_MAX = 200_000

Row = dict[str, Any]


class LeaderboardCursor(Cursor, frozen=True, kw_only=True, tag="board"):
    """Where a leaderboard continues; `board` is a hash that identifies it."""

    board: str
    offset: int
    at: datetime | None = None


class PageRequest(NamedTuple):
    """The requested leaderboard, offset and instant; None is now."""

    board: LeaderboardKey
    limit: int
    offset: int = 0
    at: datetime | None = None
    as_of: int | None = None


class PageRows(NamedTuple):
    """A page of a leaderboard at a sequence, and whether more follows."""

    as_of: int
    rows: list[Row]
    is_more: bool


@dataclass
class LeaderboardCache:
    """Leaderboards that were ranked again for a page, stored for the next pages."""

    leaderboards: OrderedDict[tuple[LeaderboardKey, int], list[PlacedEntry]] = field(
        default_factory=OrderedDict
    )
    rows: int = 0

    def keep(self, board: LeaderboardKey, seq: int, placed: list[PlacedEntry]) -> None:
        """Store a leaderboard; the oldest are dropped when there are too many."""
        if (board, seq) in self.leaderboards:
            return
        self.leaderboards[board, seq] = placed
        self.rows += len(placed)
        while len(self.leaderboards) > SNAPSHOTS_MAX or self.rows > ROWS_MAX:
            _, dropped = self.leaderboards.popitem(last=False)
            self.rows -= len(dropped)

    def find(self, board: LeaderboardKey, seq: int) -> list[PlacedEntry] | None:
        """A stored leaderboard, if it is still there."""
        return self.leaderboards.get((board, seq))


def parse_page_request(
    board: LeaderboardKey, limit: int, at: datetime | None, cursor: str | None
) -> PageRequest:
    """Parse a page request, from the cursor if there is one. Raises Refused."""
    if cursor is None:
        return PageRequest(board, limit, 0, at)
    read = decode_cursor(cursor, LeaderboardCursor)
    if read.board != _hash_key(board) or not 0 < read.offset <= RANKED_MAX:
        raise Refused("bad_cursor", "the cursor is from another list", "cursor")
    return PageRequest(board, limit, read.offset, require_zone(read.at), read.as_of)


def next_cursor(request: PageRequest, page: PageRows) -> str | None:
    """The cursor of the next page, None after the last."""
    if not page.is_more:
        return None
    cursor = LeaderboardCursor(
        made_at=time.time(),
        as_of=page.as_of,
        board=_hash_key(request.board),
        offset=request.offset + request.limit,
        at=request.at,
    )
    return encode_cursor(cursor)


def _hash_key(board: LeaderboardKey) -> str:
    return hashlib.sha256("/".join(map(str, board)).encode()).hexdigest()[:16]


def require_zone(at: datetime | None) -> datetime | None:
    """Check that an instant has a time zone. Raises Refused."""
    if at is not None and at.tzinfo is None:
        raise Refused("invalid_request", f"as_of {at} has no time zone: end it with Z", "as_of")
    return at


WAIT_S_MAX = 5.0
# Events folded before other requests get a turn.
EVENTS_PER_TURN = 500
LIVE_NAMES = ("participant", "tier", "level", "policy", "is_withdrawn", "is_consented")
ROW_FIELDS = (
    *("rank", "is_tied", "submission", "number", "pooled_over", "score_us", "error"),
    *("freedom", "delta", "received_at", "duel", "confirmation"),
)


class ArchivedLeaderboards:
    """Folds one leaderboard at a time, because each reads the whole archive."""

    def __init__(self, events: ArchiveReader, reads: Reads) -> None:
        self._events = events
        self._reads = reads
        self._turn = asyncio.Lock()

    async def board(
        self, board: LeaderboardKey, at: datetime, limit: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """The last sequence at that instant and the rows, best first. Raises Failed."""
        async with self._exclusive():
            seq, events = await self._events.read_past(board.problem, board.gpu, at)
            state = await _fold_events(events)
        rows = state.board(board, at)[:limit]
        live_rows = await self._reads.rows(
            "shown",
            submissions=[row.submission for row in rows],
            problem_number=board.problem_number,
        )
        live = {row["submission"]: {name: row[name] for name in LIVE_NAMES} for row in live_rows}
        unknown = dict.fromkeys(LIVE_NAMES)
        results = state.results.get(board, {})
        return seq, [
            _make_past_row(row, results[row.submission]) | live.get(row.submission, unknown)
            for row in rows
        ]

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await self._turn.acquire()
        except TimeoutError as late:
            raise Failed("too many requests for past leaderboards; try again") from late
        try:
            yield
        finally:
            self._turn.release()


async def _fold_events(events: list[RecordedEvent]) -> Standings:
    state = Standings()
    for index, event in enumerate(events):
        if index % EVENTS_PER_TURN == 0:
            await asyncio.sleep(0)
        state.fold(event)
    return state


def _make_past_row(row: LeaderboardRow, result: SubmissionFinished) -> dict[str, Any]:
    """A row as the live leaderboard shows it."""
    low, high = result.interval_us or (None, None)
    run_values = {"run_us": result.score_us, "low_us": low, "high_us": high}
    grading = {"grade": result.grade, "is_provisional": result.is_provisional}
    pooled_over = list(row.pooled_over) if len(row.pooled_over) > 1 else []
    fields = {name: getattr(row, name) for name in ROW_FIELDS} | {"pooled_over": pooled_over}
    fields["participant_id"] = row.account
    return add_interval(fields | run_values | grading)


@dataclass
class PageReader:
    """Reads the pages of leaderboards: now, as an earlier page was read, or at a past instant."""

    reads: Reads
    past: ArchivedLeaderboards | None
    snapshots: LeaderboardCache = field(default_factory=LeaderboardCache)

    async def read(self, request: PageRequest) -> PageRows:
        """Read a page. Raises Refused or Failed."""
        if request.at is None:
            return await self._read_now(request)
        return await self._read_past(request, request.at)

    async def _read_now(self, request: PageRequest) -> PageRows:
        """The live leaderboard, or the next page of a leaderboard read before."""
        end = request.offset + request.limit
        seq, placed = request.as_of, None
        if seq is not None:
            placed = self.snapshots.find(request.board, seq)
        if placed is None:
            positions = range(request.offset, end)
            page = await read_page(self.reads, request.board, positions, now(), request.as_of)
            seq = page.seq if request.as_of is None else request.as_of
            if page.holds:
                rows = await make_entries(self.reads, request.board, page.placed)
                return PageRows(seq, rows, min(page.total, RANKED_MAX) > end)
            placed = await self._rank_again(request)
            self.snapshots.keep(request.board, seq, placed)
        assert seq is not None, "every page has a sequence"
        rows = await make_entries(self.reads, request.board, placed[request.offset : end])
        return PageRows(seq, rows, len(placed) > end)

    async def _rank_again(self, request: PageRequest) -> list[PlacedEntry]:
        """Rank a leaderboard again if its stored places do not fit the request. Raises Refused."""
        if request.as_of is None:
            return await rank_top(self.reads, request.board, RANKED_MAX, now())
        ladder = await read_ladder_before(self.reads, request.board, RANKED_MAX, request.as_of)
        if not ladder:
            raise expired_cursor()
        rows = {row["number"]: row for row in ladder}
        return [
            PlacedEntry(place, rows[place.number])
            for place in assign_places(make_scored_entries(ladder))
        ]

    async def _read_past(self, request: PageRequest, at: datetime) -> PageRows:
        if self.past is None:
            reason = "past leaderboards are not supported: this ranker has no archive"
            raise Refused("not_supported", reason, "as_of")
        end = request.offset + request.limit
        seq, rows = await self.past.board(request.board, at, end + 1)
        return PageRows(seq, rows[request.offset : end], len(rows) > end)


async def make_entries(
    reads: Reads, board: LeaderboardKey, placed_entries: Sequence[PlacedEntry]
) -> list[Row]:
    """The rows that a leaderboard shows for entries with places. Raises Failed."""
    rows = await reads.rows(
        "shown",
        submissions=[placed.row["submission"] for placed in placed_entries],
        problem_number=board.problem_number,
    )
    # An entry may have changed between the two reads; then it is left out this time.
    details = {row["number"]: row for row in rows}
    return [
        _make_row(placed, details[placed.place.number])
        for placed in placed_entries
        if placed.place.number in details
    ]


def _make_row(placed: PlacedEntry, details: Row) -> Row:
    """A row of a leaderboard."""
    entry, place = placed.row, placed.place
    row = details | {name: entry[name] for name in ("score_us", "error", "freedom", "delta")}
    row["pooled_over"] = entry["pooled_over"] if len(entry["pooled_over"]) > 1 else []
    return add_interval(row) | {
        "rank": place.rank,
        "is_tied": place.is_tied,
        "duel": place.duel,
    }
