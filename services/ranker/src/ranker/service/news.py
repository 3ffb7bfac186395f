"""How far the read models are, for those who wait for them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from shared.errors import Failed
from shared.event_log import Recorded

# What was just folded is asked for at once by who follows it; a moment later the archive has it.
HEARD_MAX = 2000
HEARD_BYTES_MAX = 32 * 1024 * 1024
# So long a reader waits for the read models to catch up.
BEHIND_S_MAX = 5.0


class Parked(NamedTuple):
    """The event before which the projection stands, and why."""

    seq: int
    error: str


@dataclass
class News:
    """Wakes readers who wait for the checkpoint to move, or for a submission's next event."""

    seq: int = 0
    at: datetime | None = None
    behind: int = 0
    parked: Parked | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False
    heard: OrderedDict[int, Recorded] = field(default_factory=OrderedDict)
    heard_bytes: int = 0
    followers: dict[str, set[asyncio.Event]] = field(default_factory=dict)

    def end(self) -> None:
        """Let everybody go who waits: the process ends."""
        self.is_over = True
        self.moved.set()
        for waiting in self.followers.values():
            for one in waiting:
                one.set()

    def tell(self, seq: int) -> None:
        """The checkpoint moved to `seq`."""
        self.seq, self.parked = seq, None
        self._wake()

    def hear(self, batch: Sequence[Recorded], behind: int = 0) -> None:
        """These events are folded in: keep the newest, and wake who follows their submissions."""
        self.behind = behind
        for event in batch[-HEARD_MAX:]:
            if event.seq not in self.heard:
                self.heard[event.seq] = event
                self.heard_bytes += len(event.body)
        while len(self.heard) > HEARD_MAX or self.heard_bytes > HEARD_BYTES_MAX:
            _, gone = self.heard.popitem(last=False)
            self.heard_bytes -= len(gone.body)
        self.at = batch[-1].envelope.at if batch else self.at
        if self.followers:
            for event in batch:
                # It only wakes: whose an event is, the fold decides.
                for one in self.followers.get(event.envelope.corr, ()):
                    one.set()

    @contextmanager
    def following(self, submission: str) -> Iterator[asyncio.Event]:
        """An event that is set as often as the submission may have moved, for as long."""
        moved = asyncio.Event()
        if self.is_over:
            moved.set()
        self.followers.setdefault(submission, set()).add(moved)
        try:
            yield moved
        finally:
            waiting = self.followers[submission]
            waiting.discard(moved)
            if not waiting:
                del self.followers[submission]

    def lag_s(self, at: datetime) -> float:
        """How old what is shown is at an instant; nothing if all that happened is folded in."""
        if self.at is None or not (self.behind or self.parked):
            return 0.0
        return max(0.0, (at - self.at).total_seconds())

    def park(self, seq: int, error: str) -> None:
        """The projection stands before `seq` until an operator lets it go on."""
        self.parked = Parked(seq, error)
        self._wake()

    async def reach(self, seq: int, log_end: Callable[[], Awaitable[int]]) -> None:
        """Wait until what the log has up to `seq` is in the read models.

        Who was just told a number asks for it at once. Errors: Failed if it takes too long.
        """
        if self.seq >= seq or seq > await log_end():
            return
        until = time.monotonic() + BEHIND_S_MAX
        while self.seq < seq:
            left = until - time.monotonic()
            if self.parked is not None:
                stands = f"the read models stand before event {self.parked.seq}"
                raise Failed(f"{stands}: an operator has to look")
            if left <= 0 or self.is_over:
                raise Failed("the read models have not come that far; ask again")
            await self.wait(left)

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
