"""Pages of a leaderboard that are all of one moment."""

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ranker.http import cursors
from ranker.service import Board
from ranker.service.top import RANKED_MAX, Placed
from shared.errors import Refused

# Leaderboards whose next pages somebody may ask for; each has at most RANKED_MAX rows.
SNAPSHOTS_MAX = 100
ROWS_MAX = 200_000

Row = dict[str, Any]


class BoardCursor(cursors.Cursor, frozen=True, kw_only=True, tag="board"):
    """Where a leaderboard goes on; `board` says which, in short."""

    board: str
    offset: int
    at: datetime | None = None


class Asked(NamedTuple):
    """Which leaderboard is asked for, from which place on, and as of when; None is now."""

    board: Board
    limit: int
    offset: int = 0
    at: datetime | None = None
    as_of: int | None = None


class Found(NamedTuple):
    """A page of a leaderboard as it was at a sequence, and whether more follows."""

    as_of: int
    rows: list[Row]
    is_more: bool


@dataclass
class Snapshots:
    """Leaderboards that had to be made again for a page, kept for the pages after it."""

    kept: OrderedDict[tuple[Board, int], list[Placed]] = field(default_factory=OrderedDict)
    rows: int = 0

    def keep(self, board: Board, seq: int, placed: list[Placed]) -> None:
        """Remember a leaderboard as it was; the oldest are forgotten where there are too many."""
        if (board, seq) in self.kept:
            return
        self.kept[board, seq] = placed
        self.rows += len(placed)
        while len(self.kept) > SNAPSHOTS_MAX or self.rows > ROWS_MAX:
            _, gone = self.kept.popitem(last=False)
            self.rows -= len(gone)

    def find(self, board: Board, seq: int) -> list[Placed] | None:
        """A leaderboard as it was, if it is remembered."""
        return self.kept.get((board, seq))


def asked_for(board: Board, limit: int, at: datetime | None, cursor: str | None) -> Asked:
    """What is meant, by a cursor if there is one. Errors: Refused."""
    if cursor is None:
        return Asked(board, limit, 0, at)
    read = cursors.read(cursor, BoardCursor)
    if read.board != _short(board) or not 0 < read.offset <= RANKED_MAX:
        raise Refused("bad_cursor", "the cursor is that of another list", "cursor")
    return Asked(board, limit, read.offset, instant(read.at), read.as_of)


def next_cursor(asked: Asked, found: Found) -> str | None:
    """What leads to the page after a page, None if it was the last."""
    if not found.is_more:
        return None
    cursor = BoardCursor(
        made_at=time.time(),
        as_of=found.as_of,
        board=_short(asked.board),
        offset=asked.offset + asked.limit,
        at=asked.at,
    )
    return cursors.text(cursor)


def _short(board: Board) -> str:
    return hashlib.sha256("/".join(map(str, board)).encode()).hexdigest()[:16]


def instant(at: datetime | None) -> datetime | None:
    """An instant as it may be asked for. Errors: Refused for one without a zone."""
    if at is not None and at.tzinfo is None:
        raise Refused("invalid_request", f"as_of {at} has no zone: end it with Z", "as_of")
    return at
