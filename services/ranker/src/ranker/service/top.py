"""The places of a leaderboard: as they are kept, or made again of its fastest entries."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ranker.domain.ties import Place, Standing, place_group, places
from ranker.service.ports import Board, Reads
from shared.telling.duels import difference_text

RANKED_MAX = 10_000
STEP = 200
GROWTH = 4
# Entries beside a page whose duels may reach into it.
BESIDE = 4

Row = dict[str, Any]


class Placed(NamedTuple):
    """An entry and its place."""

    place: Place
    row: Row


class Page(NamedTuple):
    """Some places of a leaderboard at a sequence, and how many entries it has in all.

    It `holds` unless a ban ended by the clock alone, or an entry changed since what was asked for:
    then there are no places in it.
    """

    seq: int
    placed: list[Placed]
    total: int
    holds: bool


async def read_page(
    reads: Reads, board: Board, positions: range, at: datetime, as_of: int | None = None
) -> Page:
    """The places at some positions, as they are kept; `as_of` is a sequence that they are of.

    What is read does not grow with the leaderboard: those entries, and the few beside them that a
    duel may have moved past the page's ends.
    """
    beside = BESIDE
    while True:
        first = max(0, positions.start - beside)
        limit = positions.stop + beside - first
        rows = await reads.rows(
            "page", **named(board), offset=first, limit=limit, at=at, as_of=as_of
        )
        state = rows[0]
        holds = state["is_settled"] and not state["is_changed"]
        entries = [row for row in rows if row["number"] is not None]
        if not holds or not entries:
            return Page(state["seq"], [], state["total"], holds)
        placed = _placed(entries, first, positions, state["total"])
        if placed is not None:
            return Page(state["seq"], placed, state["total"], holds)
        if first == 0 and len(entries) < limit:
            # Somebody wrote these tables by hand: the counts are not those of the entries.
            return Page(state["seq"], [], state["total"], holds=False)
        beside *= GROWTH


async def read_standing(reads: Reads, board: Board, account: str, at: datetime) -> Row | None:
    """Where an account stands, as it is kept; None where a ban ended by the clock alone.

    Its `number` is None if it has no entry.
    """
    (row,) = await reads.rows("standing", **named(board), account=account, at=at)
    return row if row["is_settled"] else None


async def read_top(reads: Reads, board: Board, limit: int, at: datetime) -> list[Placed]:
    """The first places of a leaderboard at an instant, as they are kept if that holds."""
    page = await read_page(reads, board, range(limit), at)
    return page.placed if page.holds else (await top(reads, board, limit, at))[:limit]


def _placed(rows: Sequence[Row], first: int, wanted: range, total: int) -> list[Placed] | None:
    """The places at wanted positions; None if a duel may reach in from beyond what was read."""
    found: dict[int, Placed] = {}
    end = first + len(rows)
    known = {row["number"]: row for row in rows}
    for start, size in _groups(rows[0]["before"], rows[0]["sizes"]):
        part = [*range(max(start, first), min(start + size, end))]
        # Nobody passes who was beaten by nobody: the order before them and behind is apart.
        firm = [at for at in part if not rows[at - first]["is_beaten"]]
        if start < first:
            part = [at for at in part if firm and at > firm[0]]
        if end < start + size:
            part = [at for at in part if firm and at <= firm[-1]]
        if not part:
            continue
        group = standings([rows[at - first] for at in part])
        for at, place in zip(part, place_group(group, start + 1, is_tied=size > 1), strict=True):
            found[at] = Placed(place, known[place.number])
    needed = range(wanted.start, min(wanted.stop, total))
    # The one after the last says whether that is ahead of it by a duel.
    following = range(needed.stop, min(needed.stop + 1, total))
    if any(at not in found for at in (*needed, *following)):
        return None
    return [found[at] for at in needed]


def _groups(before: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The position of each group's first entry, and how many it has."""
    for size in sizes:
        yield before, size
        before += size


async def top(reads: Reads, board: Board, limit: int, at: datetime) -> list[Placed]:
    """The first `limit` places and all that share the rank of the last, made again at an instant.

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
    return await reads.rows("ladder", **named(board), limit=limit, at=at)


async def read_ladder_before(reads: Reads, board: Board, limit: int, as_of: int) -> list[Row]:
    """The fastest entries as they were after an event; none where that is not kept any more."""
    return await reads.rows("ladder_before", **named(board), limit=limit, as_of=as_of)


def named(board: Board) -> Row:
    """A leaderboard as statements name it."""
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}


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
