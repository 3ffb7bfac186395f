"""The places of a leaderboard: as they are stored, or ranked again from its fastest entries.

Stored places are groups of ties, their sizes, and the order within.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from ranker.domain.places import (
    Place,
    RankedEntry,
    ScoredEntry,
    Win,
    arrange,
    assign_places,
    place_group,
    say_duels,
)
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import Reads

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
    by_position: dict[int, RankedEntry] = {}
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
        ranked = place_group(group, start + 1, best_ranks, is_tied=size > 1)
        by_position |= dict(zip(part, ranked, strict=True))
    needed = range(positions.start, min(positions.stop, total))
    # The entry after the last tells whether the last is ahead of it by a duel.
    positions_read = range(needed.start, min(needed.stop + 1, total))
    if any(at not in by_position for at in positions_read):
        return None
    places = say_duels([by_position[at] for at in positions_read])[: len(needed)]
    return [PlacedEntry(place, known[place.number]) for place in places]


async def rank_top(
    reads: Reads, board: LeaderboardKey, limit: int, at: datetime
) -> list[PlacedEntry]:
    """The first `limit` places and all that share the rank of the last, ranked at an instant.

    Ranks are made from the top, and a group of ties is directly behind its leader: so it is enough
    to read until the group after the limit is complete, and all who beat a read entry are read.
    """
    size = limit + STEP
    while True:
        ladder = await read_ladder(reads, board, size, at)
        placed = assign_places(make_scored_entries(ladder), limit + 1)
        is_whole = len(ladder) < size or size >= RANKED_MAX
        # A group at the end of the read entries may continue after them.
        if is_whole or (len(placed) < len(ladder) and not _have_later_winners(ladder)):
            rows = {row["number"]: row for row in ladder}
            last_rank = max((place.rank for place in placed[:limit]), default=0)
            return [
                PlacedEntry(place, rows[place.number])
                for place in placed
                if place.rank <= last_rank
            ]
        size = min(GROWTH * size, RANKED_MAX)


def _have_later_winners(ladder: Sequence[Row]) -> bool:
    """Whether an entry lost a duel to one that is placed after all of these."""
    originals = (row for row in ladder if row["number"] == row["order_number"])
    last_us = max(row["placed_us"] for row in originals)
    return any((row["beaten_at_us"] or 0.0) >= last_us for row in ladder)


async def read_ladder(reads: Reads, board: LeaderboardKey, limit: int, at: datetime) -> list[Row]:
    """The fastest entries of a leaderboard, in order, each with the key of its original."""
    rows = await reads.rows("ladder", **key_values(board), limit=limit, at=at)
    by_number = {row["number"]: row for row in rows}
    return [
        by_number[entry.number] | {"order_us": unit.key[0], "order_number": unit.key[1]}
        for unit in arrange(make_scored_entries(rows))
        for entry in unit.entries
    ]


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
    wins = {
        win["loser"]: Win(win["ratio"], win["low"], win["high"]) for win in row.get("wins") or ()
    }
    return ScoredEntry(
        row["number"],
        row["score_us"],
        row["error"],
        row["freedom"],
        row["delta"],
        row.get("source", ""),
        wins,
        is_noisy=row["placed_us"] > row["score_us"],
    )
