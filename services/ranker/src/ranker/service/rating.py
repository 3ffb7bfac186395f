"""Reads the rating from the read models, and keeps it for a few seconds."""

import time
from dataclasses import dataclass
from datetime import datetime

from ranker.domain.rating import (
    PLACES_MAX,
    RatedPlace,
    find_hidden_problems,
    rate,
    select_boards,
)
from ranker.domain.rows import LeaderboardKey
from ranker.service.contests import decode_definition
from ranker.service.decisions import Reads
from ranker.service.leaderboard import read_top
from shared.api.rating import RatedParticipant
from shared.clock import now
from shared.contests.definition import Contest
from shared.single_flight import FreshFlight

# A rating reads the places of all leaderboards, so it is computed at most once in this time.
KEPT_S = 10.0
# How often it is read again because something was folded meanwhile.
READS_MAX = 3


@dataclass(frozen=True)
class RatingList:
    """The ratings, best first, at an instant; `seq` is the last event that was folded before.

    `boards` are the leaderboards that count in it.
    """

    seq: int
    at: datetime
    ratings: list[RatedParticipant]
    boards: frozenset[LeaderboardKey]


class RatingReads:
    """Computes the rating for all who ask at one time."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._flight: FreshFlight[str, RatingList] = FreshFlight()
        self._kept: RatingList | None = None
        self._kept_until = 0.0

    async def read(self) -> RatingList:
        """The rating, at most ten seconds old, of leaderboards that count now. Raises Failed."""
        current = self._kept
        is_old = current is None or time.monotonic() > self._kept_until
        if current is None or is_old or await self._is_hidden(current):
            current = self._kept = await self._flight.join("", self._compute)
            self._kept_until = time.monotonic() + KEPT_S
        return current

    async def _is_hidden(self, rating_list: RatingList) -> bool:
        """Return whether a leaderboard was closed, or a contest hides it, since it was rated."""
        counted = {(it.problem, it.gpu) for it in await select_counted(self._reads, now())}
        return any((it.problem, it.gpu) not in counted for it in rating_list.boards)

    async def _compute(self) -> RatingList:
        rating_list = await self._read_once()
        for _ in range(READS_MAX - 1):
            if await self._checkpoint() == rating_list.seq:
                break
            rating_list = await self._read_once()
        return rating_list

    async def _read_once(self) -> RatingList:
        seq, at = await self._checkpoint(), now()
        boards = await read_boards(self._reads, at)
        return RatingList(seq, at, rate(boards), frozenset(boards))

    async def _checkpoint(self) -> int:
        rows = await self._reads.rows("checkpoint")
        return int(rows[0]["seq"]) if rows else 0


async def select_counted(reads: Reads, at: datetime) -> list[LeaderboardKey]:
    """The leaderboards that count at an instant. Raises Failed."""
    rows = await reads.rows("boards_with_entries", at=at)
    known = [LeaderboardKey(row["problem"], row["gpu"], row["problem_number"]) for row in rows]
    return select_boards(known, await _read_closed(reads), await _read_contests(reads), at)


async def read_hidden_problems(reads: Reads, at: datetime) -> set[str]:
    """The problems whose ranks not everybody may see at an instant. Raises Failed."""
    contests = await _read_contests(reads)
    return {*await _read_closed(reads), *find_hidden_problems(contests, at)}


async def _read_closed(reads: Reads) -> list[str]:
    return [row["slug"] for row in await reads.rows("closed_leaderboards")]


async def _read_contests(reads: Reads) -> list[Contest]:
    return [decode_definition(row) for row in await reads.rows("contests", contest=None)]


async def read_boards(reads: Reads, at: datetime) -> dict[LeaderboardKey, list[RatedPlace]]:
    """The places of all leaderboards that count at an instant. Raises Failed."""
    boards = {}
    for board in await select_counted(reads, at):
        placed = await read_top(reads, board, PLACES_MAX, at)
        boards[board] = [
            RatedPlace(row["account"], place.rank, place.number) for place, row in placed
        ]
    return boards
