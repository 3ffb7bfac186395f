"""Updates the stored places of a leaderboard where its entries changed.

A leaderboard's groups depend only on its entries and their duels: the first entry that is in no
group yet leads one, and the entries after it belong to it as long as the intervals of all have a
value in common and no duel separates two. A noisy entry is placed by the slow end of its interval;
its best rank is found when it is read. The effect of a changed entry is found from its own group
on: where a group begins at the same entry as before, all groups behind it are unchanged.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf, log
from typing import NamedTuple, Protocol

from ranker.domain.places import EntryKey, ScoredEntry, TieGroup, arrange
from ranker.domain.rows import LeaderboardKey
from ranker.service.leaderboard import Row, key_values, make_scored_entry

# Blocks within a factor of e; a group spans at least 0.3 %, so a block has at most about thirty.
BLOCKS = 10
# Entries per read: the first time, and at most.
WINDOW, WINDOW_MAX = 100, 5000
BEGIN: EntryKey = (-inf, 0)
END: EntryKey = (inf, 0)


class PlaceTables(Protocol):
    """The tables of places, within the transaction that changes entries."""

    async def place(self, statement: str, **values: object) -> list[Row]:
        """Run one statement of sql/place.sql and return its rows."""

    async def write_places(self, statement: str, **values: object) -> None:
        """Run one statement of sql/place.sql that returns no rows."""


class EntryChange(NamedTuple):
    """An account's visible entry on a leaderboard before and after a change.

    `old` is its order and number. `sources` are those of it that other entries there may share, or
    that duels link with others.
    """

    old: "Slot | None"
    new: ScoredEntry | None
    sources: frozenset[str]


class Slot(NamedTuple):
    """Where an entry stands: at the key of its original, which has the same number."""

    key: EntryKey
    number: int

    @property
    def is_original(self) -> bool:
        """Whether the entry is no copy of another."""
        return self.number == self.key[1]


class _Moves(NamedTuple):
    """What changes in the order of a leaderboard.

    `old` and `new` are originals by their keys: where one stood, or where its duels may have
    changed, and where one stands now. `copies` counts how many more copies there are at the key of
    an original.
    """

    old: set[EntryKey]
    new: dict[EntryKey, ScoredEntry]
    copies: Counter[EntryKey]

    def add(self, old: Slot | None, new: Slot | None, entry: ScoredEntry | None) -> None:
        """Add what one entry does."""
        if old is not None and old.is_original:
            self.old.add(old.key)
        elif old is not None:
            self.copies[old.key] -= 1
        if new is not None and entry is not None and new.is_original:
            self.new[new.key] = entry
        elif new is not None:
            self.copies[new.key] += 1


class _Group(NamedTuple):
    """An existing group and its reach."""

    key: EntryKey
    reach_us: float


async def update_places(
    tables: PlaceTables, rows: Iterable[Row], dueled_rows: Iterable[Row] = ()
) -> None:
    """Place the changed entries again, those whose duels were judged, and those that they move.

    `rows` are those of `choose_entries` and `end_bans`, in the order of the changes, and
    `dueled_rows` those of `sources_dueled`.
    """
    changes: dict[LeaderboardKey, dict[str, EntryChange]] = defaultdict(dict)
    dueled: dict[LeaderboardKey, set[str]] = defaultdict(set)
    for row in dueled_rows:
        board = LeaderboardKey(row["problem"], row["gpu"], row["problem_number"])
        dueled[board].update(row["sources"])
    for row in rows:
        if row["account"] is not None:
            board = LeaderboardKey(row["problem"], row["gpu"], row["problem_number"])
            accounts = changes[board]
            earlier = accounts.get(row["account"])
            change = _make_change(row)
            if earlier is not None:
                sources = earlier.sources | change.sources
                change = EntryChange(earlier.old, change.new, sources)
            accounts[row["account"]] = change
    for board in changes.keys() | dueled.keys():
        await _Places(tables, board).keep(changes[board], dueled[board])


async def place_leaderboard(tables: PlaceTables, board: LeaderboardKey) -> None:
    """Place all entries of a leaderboard without stored places, copied sources and duels."""
    places = _Places(tables, board)
    await places.lead(BEGIN)
    await places.count(Counter())


def _make_change(row: Row) -> EntryChange:
    if "old_number" in row:
        is_old, number = row["old_number"] is not None and not row["is_hidden"], row["old_number"]
    else:
        is_old, number = row["is_hidden"], row["number"]
    old = Slot((row["old_order_us"], row["old_order_number"]), number) if is_old else None
    is_new = row["number"] is not None and not row["is_hidden"]
    sources = {row["source"], row.get("old_source")} - {None} if row["is_linked"] else set()
    return EntryChange(old, make_scored_entry(row) if is_new else None, frozenset(sources))


def block_of(order_us: float) -> int:
    """The block of a group, by its leader's place.

    >>> block_of(100.0), block_of(111.0)
    (46, 47)
    """
    return floor(BLOCKS * log(order_us))


@dataclass
class _Window:
    tables: PlaceTables
    board: LeaderboardKey
    first: EntryKey = END
    keys: list[EntryKey] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    is_last: bool = False

    async def entries(self, start: EntryKey) -> AsyncIterator[Row]:
        """The entries from a key on."""
        size = WINDOW
        while True:
            is_covered = self.is_last or (bool(self.keys) and self.keys[-1] >= start)
            if not (self.first <= start and is_covered):
                await self._read(start, size)
                size = min(2 * size, WINDOW_MAX)
            for row in self.rows[bisect_left(self.keys, start) :]:
                yield row
            if self.is_last:
                return
            order_us, number = self.keys[-1]
            start = order_us, number + 1

    async def _read(self, start: EntryKey, size: int) -> None:
        self.rows = await self.tables.place(
            "entries_from",
            **key_values(self.board),
            from_us=start[0],
            from_number=start[1],
            limit=size,
        )
        self.first, self.is_last = start, len(self.rows) < size
        self.keys = [(row["order_us"], row["order_number"]) for row in self.rows]


class _Places:
    def __init__(self, tables: PlaceTables, board: LeaderboardKey) -> None:
        self._tables = tables
        self._board = key_values(board)
        self._window = _Window(tables, board)
        self._changed: Collection[EntryKey] = ()
        self._blocks: set[int] = set()
        # The groups of these keys were counted again.
        self._counted: list[tuple[EntryKey, EntryKey]] = []

    async def keep(self, changes: Mapping[str, EntryChange], dueled: Collection[str]) -> None:
        """Order, group and count the affected entries again; `dueled` are sources."""
        sources = {source for change in changes.values() for source in change.sources}
        new = [change.new for change in changes.values() if change.new is not None]
        source_counts = Counter(entry.source for entry in new)
        sources |= {source for source, count in source_counts.items() if count > 1}
        moves = await self._update_order(changes, sources, dueled)
        if moves.old or moves.new or moves.copies:
            await self._update_groups(moves)

    async def _update_groups(self, moves: _Moves) -> None:
        """Find the groups again from each changed key on, and count those that only grew."""
        old, new = moves.old, moves.new
        self._changed = {*old, *new}
        near = await self._read_groups(sorted({*self._changed, *moves.copies}))
        grown: Counter[EntryKey] = Counter()
        for key, count in moves.copies.items():
            if near.get(key):
                grown[near[key][0].key] += count
        settled = BEGIN
        for key in sorted(self._changed):
            if key < settled:
                continue
            groups = near.get(key, [])
            if not groups:
                settled = await self.lead(key)
            elif groups[0].key == key:
                settled = await self.lead(groups[1].key if len(groups) > 1 else key)
            elif key in old or not _only_grows(groups[0], new[key]):
                settled = await self.lead(groups[0].key)
            else:
                grown[groups[0].key] += 1
        await self.count(grown)

    async def _read_groups(self, keys: Sequence[EntryKey]) -> dict[EntryKey, list[_Group]]:
        rows = await self._tables.place(
            "groups_at",
            **self._board,
            keys_us=[order_us for order_us, _ in keys],
            numbers=[number for _, number in keys],
        )
        groups: dict[EntryKey, list[_Group]] = defaultdict(list)
        for row in rows:
            group = _Group((row["first_us"], row["first_number"]), row["reach_us"])
            groups[row["at_us"], row["at_number"]].append(group)
        return groups

    async def lead(self, first: EntryKey) -> EntryKey:
        """Find the groups from a key on, until one begins where an unchanged one did.

        Returns the key from which all groups are unchanged.
        """
        groups: list[tuple[EntryKey, TieGroup]] = []
        end = END
        async for row in self._window.entries(first):
            entry, key = make_scored_entry(row), (row["order_us"], row["order_number"])
            if groups and groups[-1][1].takes(entry):
                groups[-1][1].add(entry)
                continue
            if groups and row["is_leader"] and key not in self._changed:
                end = key
                break
            groups.append((key, TieGroup(entry)))
        rows = await self._tables.place(
            "lead_groups",
            **self._board,
            firsts_us=[order_us for (order_us, _), _ in groups],
            first_numbers=[number for (_, number), _ in groups],
            blocks=[block_of(order_us) for (order_us, _), _ in groups],
            reaches_us=[group.reach_us for _, group in groups],
            from_us=first[0],
            from_number=first[1],
            end_us=end[0],
            end_number=end[1],
        )
        self._blocks |= {row["block"] for row in rows}
        self._counted.append((first, end))
        return end

    async def count(self, grown: Counter[EntryKey]) -> None:
        """Count the groups that entries joined or left, and the blocks of all that changed."""
        keys = [
            key
            for key, count in grown.items()
            if count and not any(first <= key < end for first, end in self._counted)
        ]
        if keys:
            rows = await self._tables.place(
                "count_entries",
                **self._board,
                firsts_us=[first_us for first_us, _ in keys],
                first_numbers=[number for _, number in keys],
                entries_counts=[grown[key] for key in keys],
            )
            self._blocks |= {row["block"] for row in rows}
        if self._blocks:
            await self._tables.write_places(
                "count_blocks", **self._board, blocks=sorted(self._blocks)
            )

    async def _update_order(
        self, changes: Mapping[str, EntryChange], sources: Collection[str], dueled: Collection[str]
    ) -> _Moves:
        """Order the changed entries and those that are linked with some sources.

        Returns what moves.
        """
        rows: list[Row] = []
        if sources or dueled:
            rows = await self._tables.place(
                "linked_entries", **self._board, sources=sorted({*sources, *dueled})
            )
        linked = {row["number"] for row in rows}
        moves = _Moves(set(), {}, Counter())
        for change in changes.values():
            if change.new is None:
                moves.add(change.old, None, None)
            elif change.new.number not in linked:
                moves.add(change.old, Slot(change.new.key, change.new.number), change.new)
        await self._order_linked(rows, changes, dueled, moves)
        return moves

    async def _order_linked(
        self,
        rows: Sequence[Row],
        changes: Mapping[str, EntryChange],
        dueled: Collection[str],
        moves: _Moves,
    ) -> None:
        """Put copies behind their originals and losers behind winners, and add what moves."""
        by_number = {row["number"]: row for row in rows}
        orders: dict[str, EntryKey] = {}
        for key, entries in arrange([make_scored_entry(row) for row in rows]):
            for entry in entries:
                row = by_number[entry.number]
                order, change = (row["order_us"], row["order_number"]), changes.get(row["account"])
                if order != key:
                    orders[row["account"]] = key
                old = Slot(order, entry.number) if change is None else change.old
                if change is not None or order != key or entry.source in dueled:
                    moves.add(old, Slot(key, entry.number), entry)
                    moves.old.add(key)
        await self._write_orders(orders)

    async def _write_orders(self, orders: Mapping[str, EntryKey]) -> None:
        if orders:
            await self._tables.write_places(
                "order_entries",
                **self._board,
                accounts=list(orders),
                orders_us=[order_us for order_us, _ in orders.values()],
                order_numbers=[number for _, number in orders.values()],
            )


def _only_grows(group: _Group, entry: ScoredEntry) -> bool:
    """Whether a group is the same with one more entry, which no duel links with another."""
    low_us, high_us = entry.interval_us
    return low_us <= group.reach_us <= high_us
