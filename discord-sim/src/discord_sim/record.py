"""The record of requests, of the bot's mistakes and of the simulator's own faults."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discord_sim.cdn import FileUpload

WAIT_S = 60.0
LAST_SHOWN = 8
# Discord bans an address after 10 000 of these in ten minutes.
INVALID = (401, 403, 429)
Value = TypeVar("Value")


@dataclass
class RecordedRequest:
    """A request as far as it was understood, and its answer."""

    path: str
    operation: str = "?"
    body: Any = None
    files: dict[int, FileUpload] = field(default_factory=dict)
    status: int = 0
    answer: Any = None
    at: float = 0.0


@dataclass
class Record:
    """Lists for tests; `violations` and `own_faults` are empty after a good run.

    `lints` are fields that are not in Discord's document, which Discord would ignore.
    """

    calls: list[RecordedRequest] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    own_faults: list[str] = field(default_factory=list)
    lints: set[str] = field(default_factory=set)
    changes: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def tell(self) -> None:
        """Wake all waiters after a change."""
        async with self._changed:
            self.changes += 1
            self._changed.notify_all()

    async def wait(self, is_true: Callable[[], bool], within_s: float) -> bool:
        """Wait until a condition is true, and return whether it came true in time."""
        async with self._changed:
            try:
                async with asyncio.timeout(within_s):
                    return await self._changed.wait_for(is_true)
            except TimeoutError:
                return False

    async def until(
        self, look: Callable[[], Value | None], what: str, within_s: float = WAIT_S
    ) -> Value:
        """Return the first true value of `look`. Raises `AssertionError` with the last requests."""
        values: list[Value] = []

        def has_value() -> bool:
            value = look()
            values[:] = [value] if value else []
            return bool(value)

        if not await self.wait(has_value, within_s):
            last = "\n".join(map(str, self.calls[-LAST_SHOWN:]))
            raise AssertionError(f"{what}: not within {within_s:g} s; the last requests:\n{last}")
        return values[0]

    def of(self, operation: str) -> list[RecordedRequest]:
        """Return the requests with one operationId."""
        return [call for call in self.calls if call.operation == operation]

    def invalid(self) -> int:
        """Count the requests that count towards a ban by Discord."""
        return sum(call.status in INVALID for call in self.calls)

    def take_violations(self) -> list[str]:
        """Return the violations so far and clear them, for a test that provoked them."""
        taken, self.violations[:] = list(self.violations), []
        return taken
