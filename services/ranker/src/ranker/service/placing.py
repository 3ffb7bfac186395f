"""Keep where entries stand: groups of ties, how many entries each has, and the order within.

A leaderboard's groups follow from its entries alone: the fastest entry that is in no group yet
leads one, and those after it that are tied with it belong to it. So what one changed entry moves is
found from its own group on: as soon as a group begins where one did before, all behind stay as they
are.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import floor, inf, log
from typing import Any, NamedTuple, Protocol

from ranker.domain.ties import Key, Standing, certain_reach_us, group_order, is_tied
from ranker.service.ports import Board
from ranker.service.top import named

# Blocks within a factor of e; a group spans 0.3 % at least, so one has some thirty groups at most.
BLOCKS = 10
# Entries that are read at once, the first time and at most.
WINDOW, WINDOW_MAX = 100, 5000
BEGIN: Key = (-inf, 0)
END: Key = (inf, 0)

Row = dict[str, Any]


class PlaceTables(Protocol):
    """The tables of places, within the transaction that changes entries."""

    async def place(self, statement: str, **values: object) -> list[Row]:
        """Run one statement of sql/place.sql; its rows."""
        ...

    async def write_places(self, statement: str, **values: object) -> None:
        """Run one statement of sql/place.sql that has no rows."""
        ...


class EntryChange(NamedTuple):
    """What an account's entry was and is on a leaderboard, where it is shown.

    `sources` are those that others there may have, too.
    """

    old: Key | None
    new: Standing | None
    sources: frozenset[str]


class _Group(NamedTuple):
    """A group that was there before; `leader` is None if that entry is gone."""

    key: Key
    leader: Standing | None


async def keep_places(tables: PlaceTables, rows: Iterable[Row]) -> None:
    """Place the entries that changed, and those that they moved.

    `rows` are those of `choose_entries` and `end_bans`, in the order in which they happened.
    """
    changes: dict[Board, dict[str, EntryChange]] = defaultdict(dict)
    for row in rows:
        if row["account"] is not None:
            board = Board(row["problem"], row["gpu"], row["problem_number"])
            accounts = changes[board]
            earlier = accounts.get(row["account"])
            change = _change(row)
            if earlier is not None:
                sources = earlier.sources | change.sources
                change = EntryChange(earlier.old, change.new, sources)
            accounts[row["account"]] = change
    for board, accounts in changes.items():
        await _Places(tables, board).keep(list(accounts.values()))


async def place_board(tables: PlaceTables, board: Board) -> None:
    """Place all entries of a leaderboard of which no place is kept yet, and no source is a copy."""
    places = _Places(tables, board)
    await places.lead(None, BEGIN, BEGIN)
    await places.count(Counter())


def _change(row: Row) -> EntryChange:
    """What a row of a changed entry says."""
    if "old_number" in row:
        is_old = row["old_number"] is not None and not row["is_hidden"]
        old: Key | None = (row["old_score_us"], row["old_number"]) if is_old else None
    else:
        old = (row["score_us"], row["number"]) if row["is_hidden"] else None
    is_new = row["number"] is not None and not row["is_hidden"]
    sources = {row["source"], row.get("old_source")} - {None} if row["is_copied"] else set()
    return EntryChange(old, _standing(row) if is_new else None, frozenset(sources))


def _standing(row: Row) -> Standing:
    return Standing(
        row["number"],
        row["score_us"],
        row["error"],
        row["freedom"],
        row["delta"],
        row.get("source", ""),
    )


def _key(one: Standing) -> Key:
    return one.score_us, one.number


def _after(key: Key) -> Key:
    return key[0], key[1] + 1


def block_of(score_us: float) -> int:
    """Return the block of a group by its leader's score.

    >>> block_of(100.0), block_of(111.0)
    (46, 47)
    """
    return floor(BLOCKS * log(score_us))


@dataclass
class _Window:
    """Entries in order, read some at a time."""

    tables: PlaceTables
    board: Board
    first: Key = END
    keys: list[Key] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    is_last: bool = False

    async def entries(self, start: Key) -> AsyncIterator[Row]:
        """The entries from a key on."""
        size = WINDOW
        while True:
            if not self._has(start):
                await self._read(start, size)
                size = min(2 * size, WINDOW_MAX)
            for row in self.rows[bisect_left(self.keys, start) :]:
                yield row
            if self.is_last:
                return
            start = _after(self.keys[-1])

    def _has(self, start: Key) -> bool:
        return self.first <= start and (
            self.is_last or (bool(self.keys) and self.keys[-1] >= start)
        )

    async def _read(self, start: Key, size: int) -> None:
        self.rows = await self.tables.place(
            "entries_from",
            **named(self.board),
            from_us=start[0],
            from_number=start[1],
            limit=size,
        )
        self.first, self.is_last = start, len(self.rows) < size
        self.keys = [(row["score_us"], row["number"]) for row in self.rows]


class _Places:
    """The places of one leaderboard, while entries of it change."""

    def __init__(self, tables: PlaceTables, board: Board) -> None:
        self._tables = tables
        self._board = named(board)
        self._window = _Window(tables, board)
        self._changed: Collection[Key] = ()
        self._blocks: set[int] = set()
        # Between these keys entries may have come to other groups.
        self._moved: list[tuple[Key, Key]] = []
        # These keys' groups were counted anew.
        self._counted: list[tuple[Key, Key]] = []

    async def keep(self, changes: Sequence[EntryChange]) -> None:
        """Group, count and order the entries again that changes move."""
        old = {change.old for change in changes if change.old is not None}
        new = {_key(change.new): change.new for change in changes if change.new is not None}
        if old or new:
            await self._group(old, new)
        sources = {source for change in changes for source in change.sources}
        several = Counter(one.source for one in new.values())
        sources |= {source for source, count in several.items() if count > 1}
        await self._order(sources)

    async def _group(self, old: Collection[Key], new: dict[Key, Standing]) -> None:
        """Find the groups again from each changed key on, and count those that only grew."""
        self._changed = {*old, *new}
        near = await self._groups_at(sorted(self._changed))
        grown: Counter[Key] = Counter()
        settled = BEGIN
        for key in sorted(self._changed):
            if key < settled:
                continue
            groups = near.get(key, [])
            if not groups:
                settled = await self.lead(None, key, key)
            elif groups[0].key == key:
                before = groups[1].leader if len(groups) > 1 else None
                settled = await self.lead(before, key if before is None else _key(before), key)
            else:
                leader = groups[0].leader
                assert leader is not None, "who left is before its group's others"
                entry = new.get(key)
                if entry is not None and not is_tied(leader, entry):
                    settled = await self.lead(leader, groups[0].key, key)
                else:
                    grown[groups[0].key] += (key in new) - (key in old)
        await self.count(grown)

    async def _groups_at(self, keys: Sequence[Key]) -> dict[Key, list[_Group]]:
        rows = await self._tables.place(
            "groups_at",
            **self._board,
            scores_us=[score_us for score_us, _ in keys],
            numbers=[number for _, number in keys],
        )
        found: dict[Key, list[_Group]] = defaultdict(list)
        for row in rows:
            key = row["first_us"], row["first_number"]
            is_there = row["freedom"] is not None and key not in self._changed
            known = row | {"score_us": key[0], "number": key[1]}
            group = _Group(key, _standing(known) if is_there else None)
            found[row["at_us"], row["at_number"]].append(group)
        return found

    async def lead(self, leader: Standing | None, first: Key, start: Key) -> Key:
        """Find the leaders behind one, which leads all up to `start`, until one is an old leader.

        Returns where all is as it was again. Without a leader the next entry is one.
        """
        leaders = [] if leader is None else [leader]
        at, end = start, END
        while (row := await self._first_apart(leader, at)) is not None:
            leader = _standing(row)
            if row["is_leader"] and _key(leader) not in self._changed:
                end = _key(leader)
                break
            leaders.append(leader)
            at = _after(_key(leader))
        rows = await self._tables.place(
            "lead_groups",
            **self._board,
            firsts_us=[one.score_us for one in leaders],
            first_numbers=[one.number for one in leaders],
            blocks=[block_of(one.score_us) for one in leaders],
            from_us=first[0],
            from_number=first[1],
            end_us=end[0],
            end_number=end[1],
        )
        self._blocks |= {row["block"] for row in rows}
        self._moved.append((start, end))
        self._counted.append((first, end))
        return end

    async def _first_apart(self, leader: Standing | None, start: Key) -> Row | None:
        """The first entry from a key on that is not tied with a leader."""
        if leader is not None:
            start = max(start, (certain_reach_us(leader), 0))
        async for row in self._window.entries(start):
            if leader is None or not is_tied(leader, _standing(row)):
                return row
        return None

    async def count(self, grown: Counter[Key]) -> None:
        """Count the groups that entries came to, or left, and the blocks of all that changed."""
        keys = [
            key
            for key, count in grown.items()
            if count and not any(first <= key < end for first, end in self._counted)
        ]
        if keys:
            rows = await self._tables.place(
                "count_entries",
                **self._board,
                firsts_us=[score_us for score_us, _ in keys],
                first_numbers=[number for _, number in keys],
                entries_counts=[grown[key] for key in keys],
            )
            self._blocks |= {row["block"] for row in rows}
        if self._blocks:
            await self._tables.write_places(
                "count_blocks", **self._board, blocks=sorted(self._blocks)
            )

    async def _order(self, sources: set[str]) -> None:
        """Let copies stand behind their originals where they share a rank."""
        for first, end in self._moved:
            rows = await self._tables.place(
                "copied_between",
                **self._board,
                from_us=first[0],
                from_number=first[1],
                end_us=end[0],
                end_number=end[1],
            )
            sources |= {row["source"] for row in rows}
        if not sources:
            return
        rows = await self._tables.place(
            "entries_of_sources", **self._board, sources=sorted(sources)
        )
        groups: dict[Key, list[Row]] = defaultdict(list)
        for row in rows:
            groups[row["first_us"], row["first_number"]].append(row)
        wanted: dict[str, Key] = {}
        for group in groups.values():
            orders = group_order([_copy(row) for row in group])
            for row in group:
                if orders[row["number"]] != (row["order_us"], row["order_number"]):
                    wanted[row["account"]] = orders[row["number"]]
        if wanted:
            await self._tables.write_places(
                "order_entries",
                **self._board,
                accounts=list(wanted),
                orders_us=[order_us for order_us, _ in wanted.values()],
                order_numbers=[number for _, number in wanted.values()],
            )


def _copy(row: Row) -> Standing:
    """What the order of an entry among those of its source hangs on."""
    return Standing(row["number"], row["score_us"], None, 0, 0.0, row["source"])
