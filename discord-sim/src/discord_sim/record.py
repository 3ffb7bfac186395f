"""What happened: each request, what the bot did wrong, and what the simulator did wrong."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discord_sim.cdn import Blob

WAIT_S = 60.0
LAST_SHOWN = 8
# 10 000 of these within ten minutes, and Discord shuts an address out.
INVALID = (401, 403, 429)

Found = TypeVar("Found")


@dataclass(frozen=True)
class Done:
    """A request as it was made, and how it was answered."""

    operation: str
    path: str
    body: Any
    files: dict[int, Blob]
    status: int
    answer: Any
    at: float


@dataclass
class Record:
    """Lists that tests read; `violations` and `own_faults` are empty after a good run.

    `lints` are fields that Discord's document does not know: it would ignore them.
    """

    calls: list[Done] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    own_faults: list[str] = field(default_factory=list)
    lints: set[str] = field(default_factory=set)
    changes: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def tell(self) -> None:
        """Wake whoever waits for something to happen."""
        async with self._changed:
            self.changes += 1
            self._changed.notify_all()

    async def wait(self, is_there: Callable[[], bool], within_s: float) -> bool:
        """Whether something comes true in time."""
        async with self._changed:
            try:
                return await asyncio.wait_for(self._changed.wait_for(is_there), within_s)
            except TimeoutError:
                return False

    async def until(
        self, look: Callable[[], Found | None], what: str, within_s: float = WAIT_S
    ) -> Found:
        """The first thing that `look` finds. Errors: AssertionError, with the last requests."""

        found: list[Found] = []

        def is_there() -> bool:
            value = look()
            found[:] = [value] if value else []
            return bool(value)

        if not await self.wait(is_there, within_s):
            last = "\n".join(map(str, self.calls[-LAST_SHOWN:]))
            raise AssertionError(f"{what}: not within {within_s:g} s; the last requests:\n{last}")
        return found[0]

    def of(self, operation: str) -> list[Done]:
        """The requests of one kind, by Discord's operationId."""
        return [one for one in self.calls if one.operation == operation]

    def invalid(self) -> int:
        """How many requests count towards Discord's ban."""
        return sum(one.status in INVALID for one in self.calls)

    def take_violations(self) -> list[str]:
        """All that the bot did wrong so far, and an empty list again: what a test asked for."""
        taken, self.violations[:] = list(self.violations), []
        return taken
