"""The top of a leaderboard with its ranks, in time that does not grow with its length."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ranker.domain.ties import Place, Standing, places
from ranker.service.ports import Board, Reads
from shared.telling.duels import difference_text

RANKED_MAX = 10_000
STEP = 200
GROWTH = 4

Row = dict[str, Any]


class Placed(NamedTuple):
    """An entry and its place."""

    place: Place
    row: Row


async def top(reads: Reads, board: Board, limit: int, at: datetime) -> list[Placed]:
    """The first `limit` places and all that share the rank of the last, at an instant.

    Ranks are made from the top, and a group of ties is directly behind its leader: so it is
    enough to read on until the group that the limit falls into is over.
    """
    asked = limit + STEP
    while True:
        ladder = await read_ladder(reads, board, asked, at)
        found = places(standings(ladder), limit)
        # A group that reaches the end of what was read may go on behind it.
        if len(found) < len(ladder) or len(ladder) < asked or asked >= RANKED_MAX:
            rows = {row["number"]: row for row in ladder}
            return [Placed(place, rows[place.number]) for place in found]
        asked = min(GROWTH * asked, RANKED_MAX)


async def read_ladder(reads: Reads, board: Board, limit: int, at: datetime) -> list[Row]:
    """The fastest entries of a leaderboard."""
    return await reads.rows(
        "ladder",
        problem=board.problem,
        gpu=board.gpu,
        number=board.problem_number,
        limit=limit,
        at=at,
    )


def standings(ladder: Sequence[Row]) -> list[Standing]:
    """What ranks are made of."""
    return [
        Standing(
            row["number"],
            row["score_us"],
            row["error"],
            row["freedom"],
            row["delta"],
            row["source"],
            {win["loser"]: _difference(win) for win in row["wins"]},
        )
        for row in ladder
    ]


def _difference(win: Row) -> str:
    return difference_text(win["ratio"], (win["low"], win["high"]))
