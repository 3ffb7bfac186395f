"""The places of a leaderboard: as they are stored, or ranked again from its fastest entries.

Stored places are groups of ties, their sizes, and the order within.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from ranker.domain.places import Place, ScoredEntry, assign_places, place_group
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import Reads
from shared.presentation.units import difference_text

RANKED_MAX = 10_000
STEP = 200
GROWTH = 4
# Entries around a page whose duels may affect it.
MARGIN = 4

Row = dict[str, Any]


class PlacedEntry(NamedTuple):
    """An entry and its place."""

    place: Place
    row: Row


class LeaderboardPage(NamedTuple):
    """Some places of a leaderboard at a sequence, and its total number of entries.

    If a ban ended by the clock alone, or an entry changed since the requested sequence, it does not
    hold (`holds`) and has no places.
    """

    seq: int
    placed: list[PlacedEntry]
    total: int
    holds: bool


async def read_page(
    reads: Reads, board: LeaderboardKey, positions: range, at: datetime, as_of: int | None = None
) -> LeaderboardPage:
    """The stored places at some positions; `as_of` is the sequence that they must be of.

    The cost does not grow with the leaderboard: it reads those entries and the few around them that
    a duel may have moved across the page's ends.
    """
    margin = MARGIN
    while True:
        first = max(0, positions.start - margin)
        limit = positions.stop + margin - first
        rows = await reads.rows(
            "page", **key_values(board), offset=first, limit=limit, at=at, as_of=as_of
        )
        state = rows[0]
        holds = state["is_settled"] and not state["is_changed"]
        entries = [row for row in rows if row["number"] is not None]
        if not holds or not entries:
            return LeaderboardPage(state["seq"], [], state["total"], holds)
        placed = _place_rows(entries, first, positions, state["total"])
        if placed is not None:
            return LeaderboardPage(state["seq"], placed, state["total"], holds)
        if first == 0 and len(entries) < limit:
            # The tables were edited by hand: the counts do not match the entries.
            return LeaderboardPage(state["seq"], [], state["total"], holds=False)
        margin *= GROWTH


async def read_standing(
    reads: Reads, board: LeaderboardKey, account: str, at: datetime
) -> Row | None:
    """The stored place of an account; None where a ban ended by the clock alone.

    Its `number` is None if the account has no entry.
    """
    (row,) = await reads.rows("standing", **key_values(board), account=account, at=at)
    return row if row["is_settled"] else None


async def read_top(
    reads: Reads, board: LeaderboardKey, limit: int, at: datetime
) -> list[PlacedEntry]:
    """The first places of a leaderboard at an instant, as stored if that holds."""
    page = await read_page(reads, board, range(limit), at)
    return page.placed if page.holds else (await rank_top(reads, board, limit, at))[:limit]


def _place_rows(
    rows: Sequence[Row], first: int, positions: range, total: int
) -> list[PlacedEntry] | None:
    """The places at some positions; None if a duel from outside the read rows may affect them."""
    by_position: dict[int, PlacedEntry] = {}
    end = first + len(rows)
    known = {row["number"]: row for row in rows}
    sizes = rows[0]["sizes"]
    for start, size in zip(accumulate(sizes, initial=rows[0]["before"]), sizes, strict=False):
        part = [*range(max(start, first), min(start + size, end))]
        # No entry passes one that lost no duel: the orders before and behind it are independent.
        firm = [at for at in part if not rows[at - first]["is_beaten"]]
        if start < first:
            part = [at for at in part if firm and at > firm[0]]
        if end < start + size:
            part = [at for at in part if firm and at <= firm[-1]]
        if not part:
            continue
        members = [rows[at - first] for at in part]
        best_ranks = {row["number"]: row["best_rank"] for row in members if row["best_rank"]}
        group = make_scored_entries(members)
        places = place_group(group, start + 1, best_ranks, is_tied=size > 1)
        for at, place in zip(part, places, strict=True):
            by_position[at] = PlacedEntry(place, known[place.number])
    needed = range(positions.start, min(positions.stop, total))
    # The entry after the last tells whether the last is ahead of it by a duel.
    following = range(needed.stop, min(needed.stop + 1, total))
    if any(at not in by_position for at in (*needed, *following)):
        return None
    return [by_position[at] for at in needed]


async def rank_top(
    reads: Reads, board: LeaderboardKey, limit: int, at: datetime
) -> list[PlacedEntry]:
    """The first `limit` places and all that share the rank of the last, ranked at an instant.

    Ranks are made from the top, and a group of ties is directly behind its leader: so it is enough
    to read until the group that the limit falls into is complete.
    """
    size = limit + STEP
    while True:
        ladder = await read_ladder(reads, board, size, at)
        placed = assign_places(make_scored_entries(ladder), limit)
        # A group at the end of the read entries may continue after them.
        if len(placed) < len(ladder) or len(ladder) < size or size >= RANKED_MAX:
            rows = {row["number"]: row for row in ladder}
            return [PlacedEntry(place, rows[place.number]) for place in placed]
        size = min(GROWTH * size, RANKED_MAX)


async def read_ladder(reads: Reads, board: LeaderboardKey, limit: int, at: datetime) -> list[Row]:
    """The fastest entries of a leaderboard."""
    return await reads.rows("ladder", **key_values(board), limit=limit, at=at)


async def read_ladder_before(
    reads: Reads, board: LeaderboardKey, limit: int, as_of: int
) -> list[Row]:
    """The fastest entries after an event; none if that state is no longer stored."""
    return await reads.rows("ladder_before", **key_values(board), limit=limit, as_of=as_of)


def key_values(board: LeaderboardKey) -> Row:
    """The key of a leaderboard as statements name it."""
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}


def make_scored_entries(ladder: Sequence[Row]) -> list[ScoredEntry]:
    """The values that ranks are computed from."""
    return [make_scored_entry(row) for row in ladder]


def make_scored_entry(row: Row) -> ScoredEntry:
    """The values that a rank is computed from."""
    differences = {
        win["loser"]: difference_text(win["ratio"], (win["low"], win["high"]))
        for win in row.get("wins", ())
    }
    return ScoredEntry(
        row["number"],
        row["score_us"],
        row["error"],
        row["freedom"],
        row["delta"],
        row.get("source", ""),
        differences,
        is_noisy=row["placed_us"] > row["score_us"],
    )
