"""Reads the rating from the read models, and keeps it for a few seconds."""

import time
from dataclasses import dataclass
from datetime import datetime

from ranker.domain.rating import RatedPlace, Rating, rate, select_boards
from ranker.domain.rows import LeaderboardKey
from ranker.service.contests import decode_definition
from ranker.service.decisions import Reads
from ranker.service.leaderboard import RANKED_MAX, read_top
from shared.clock import now
from shared.single_flight import SingleFlight

# A rating reads the places of all leaderboards, so it is computed at most once in this time.
KEPT_S = 10.0
# How often it is read again because something was folded meanwhile.
READS_MAX = 3


@dataclass(frozen=True)
class RatingList:
    """The ratings, best first, at an instant; `seq` is the last event that was folded before."""

    seq: int
    at: datetime
    ratings: list[Rating]


class RatingReads:
    """Computes the rating for all who ask at one time."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._flight: SingleFlight[str, RatingList] = SingleFlight()
        self._kept: RatingList | None = None
        self._kept_until = 0.0

    async def read(self) -> RatingList:
        """The rating, at most ten seconds old. Raises Failed."""
        if self._kept is None or time.monotonic() > self._kept_until:
            self._kept = await self._flight.join("", self._compute)
            self._kept_until = time.monotonic() + KEPT_S
        return self._kept

    async def _compute(self) -> RatingList:
        rating_list = await self._read_once()
        for _ in range(READS_MAX - 1):
            if await self._checkpoint() == rating_list.seq:
                break
            rating_list = await self._read_once()
        return rating_list

    async def _read_once(self) -> RatingList:
        seq, at = await self._checkpoint(), now()
        return RatingList(seq, at, rate(await read_boards(self._reads, at)))

    async def _checkpoint(self) -> int:
        rows = await self._reads.rows("checkpoint")
        return int(rows[0]["seq"]) if rows else 0


async def read_boards(reads: Reads, at: datetime) -> dict[LeaderboardKey, list[RatedPlace]]:
    """The places of all leaderboards that count at an instant. Raises Failed."""
    rows = await reads.rows("boards_with_entries")
    contests = [decode_definition(row) for row in await reads.rows("contests", contest=None)]
    known = [LeaderboardKey(row["problem"], row["gpu"], row["problem_number"]) for row in rows]
    closed = {row["problem"] for row in rows if row["visibility"] == "closed"}
    boards = {}
    for board in select_boards(known, closed, contests, at):
        placed = await read_top(reads, board, RANKED_MAX, at)
        boards[board] = [
            RatedPlace(row["account"], place.rank, place.number) for place, row in placed
        ]
    return boards
