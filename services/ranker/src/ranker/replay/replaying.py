"""Blue and green: fill a fresh schema from event 1, compare it row by row, switch."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from shared.errors import Refused

DIFFERENCES_MAX = 20
# Each round folds what came while the round before it folded.
ROUNDS_MAX = 10
NEAR = 1000


class Both(Protocol):
    """The live schema and the fresh one."""

    live: str
    fresh: str
    old: str

    async def take_turn(self) -> None:
        """Be the only replay of this schema, and drop what a killed one left. Errors: Refused."""
        ...

    async def end_turn(self) -> None:
        """Drop what this replay made and let the next one begin."""
        ...

    async def exists(self) -> bool:
        """Whether there is a live schema at all."""
        ...

    async def checkpoint(self, schema: str) -> int:
        """How far a schema is folded."""
        ...

    def held(self) -> AbstractAsyncContextManager[None]:
        """A transaction in which the live schema's projector waits."""
        ...

    async def tables(self, schema: str) -> Mapping[str, int]:
        """Every table of the fresh schema that is compared, with its number of rows in one."""
        ...

    async def lacking(self, here: str, there: str, table: str, limit: int) -> Sequence[str]:
        """Rows of a table that one schema has and the other has not."""
        ...

    async def switch(self) -> None:
        """Give the fresh schema the live one's name."""
        ...


class Filling(NamedTuple):
    """How a fresh schema is made and filled, and how far its source goes."""

    make: Callable[[str], object]
    fill: Callable[[str, int], Awaitable[None]]
    last: Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class Replayed:
    """How the fresh projection compares at one sequence, and whether it is the live one now."""

    seq: int
    rows: Mapping[str, int]
    differences: list[dict[str, Any]]
    is_compared: bool
    is_switched: bool


async def replay(both: Both, filling: Filling, *, switch: bool) -> Replayed:
    """Fold everything again beside the live tables and say where the two differ.

    Errors: Refused if another replay runs, or the source ends before the live tables do; Failed.
    """
    await both.take_turn()
    try:
        return await _replay(both, filling, switch=switch)
    finally:
        await both.end_turn()


async def _replay(both: Both, filling: Filling, *, switch: bool) -> Replayed:
    filling.make(both.fresh)
    is_live = await both.exists()
    async for until in _rounds(both, filling, is_live=is_live):
        await filling.fill(both.fresh, until)
    async with both.held():
        if is_live:
            await filling.fill(both.fresh, await both.checkpoint(both.live))
        seq, rows = await both.checkpoint(both.fresh), await both.tables(both.fresh)
        found = await _differences(both, rows) if is_live else []
        if switch:
            await both.switch()
    return Replayed(seq, rows, found[:DIFFERENCES_MAX], is_live, switch)


async def _rounds(both: Both, filling: Filling, *, is_live: bool) -> AsyncIterator[int]:
    """How far to fold, again and again, until little is left for when the projector waits."""
    for _ in range(ROUNDS_MAX):
        last = await filling.last()
        until = await both.checkpoint(both.live) if is_live else last
        if until > last:
            raise Refused(
                "source_too_short", f"the live tables are at {until}, the source ends at {last}"
            )
        behind = until - await both.checkpoint(both.fresh)
        if behind > 0:
            yield until
        if behind < NEAR:
            return


async def _differences(both: Both, fresh: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows that only one of the two has; a changed row is one of each."""
    found: list[dict[str, Any]] = []
    live = await both.tables(both.live)
    for table in fresh:
        here = await both.lacking(both.live, both.fresh, table, DIFFERENCES_MAX)
        found += [{"kind": table, "live": row, "rebuilt": None} for row in here]
        # Of as many rows, none of which the other lacks, the other has no more: it is not asked.
        if here or live[table] != fresh[table]:
            there = await both.lacking(both.fresh, both.live, table, DIFFERENCES_MAX)
            found += [{"kind": table, "live": None, "rebuilt": row} for row in there]
    return found
