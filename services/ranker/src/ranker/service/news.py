"""How far the read models are, for those who wait for them."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple


class Parked(NamedTuple):
    """The event before which the projection stands, and why."""

    seq: int
    error: str


@dataclass
class News:
    """Wakes readers who wait for the checkpoint to move."""

    seq: int = 0
    parked: Parked | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def end(self) -> None:
        """Let everybody go who waits: the process ends."""
        self.is_over = True
        self.moved.set()

    def tell(self, seq: int) -> None:
        """The checkpoint moved to `seq`."""
        self.seq, self.parked = seq, None
        self._wake()

    def park(self, seq: int, error: str) -> None:
        """The projection stands before `seq` until an operator lets it go on."""
        self.parked = Parked(seq, error)
        self._wake()

    async def wait(self, within_s: float) -> None:
        """Return when something changes, or after a while."""
        try:
            async with asyncio.timeout(within_s):
                await self.moved.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()
