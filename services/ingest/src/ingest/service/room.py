"""Room: so many submissions under way at once, and so many waiting for each GPU type."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from ingest.service.ports import Lookups, QueueSeen
from shared.errors import Failed, Refused

RETRY_S = 2.0
# The public client waits 60 s and never asks again, others give up sooner and do: work for who has
# left keeps the next one waiting.
WAIT_S_MAX = 10.0
QUEUE_RETRY_S = 60.0
LOOK_S_MAX = 1.0
FRESH_S = 1.0


class Bounds(NamedTuple):
    """How many submissions are taken in at once, how many wait for that, and for a GPU type.

    `of_one_max` are under way or wait of one participant, so that nobody fills the room alone.
    """

    at_once_max: int = 100
    waiting_max: int = 300
    queued_max: int = 10_000
    of_one_max: int = 40


USUAL = Bounds()


class Room:
    """Lets so many in at once, in the order they came; so many others wait, and not for long.

    `turned_away` counts those for whom there was no room.
    """

    def __init__(self, bounds: Bounds, wait_s_max: float = WAIT_S_MAX) -> None:
        self._places = asyncio.Semaphore(bounds.at_once_max)
        self._waiting_max = bounds.waiting_max
        self._of_one_max = bounds.of_one_max
        self._wait_s_max = wait_s_max
        self._of: Counter[str] = Counter()
        self.under_way = 0
        self.waiting = 0
        self.turned_away = 0

    @asynccontextmanager
    async def place(self, account: str) -> AsyncIterator[None]:
        """A place, as soon as it is one's turn. Errors: Refused `queue_full`."""
        with self._share(account):
            await self._turn()
            self.under_way += 1
            try:
                yield
            finally:
                self.under_way -= 1
                self._places.release()

    @contextmanager
    def _share(self, account: str) -> Iterator[None]:
        if self._of[account] >= self._of_one_max:
            self.turned_away += 1
            what = (
                f"{self._of_one_max} submissions of yours are being taken in: send this one again"
            )
            raise Refused("queue_full", what, retry_after_s=RETRY_S)
        self._of[account] += 1
        try:
            yield
        finally:
            self._of[account] -= 1
            if not self._of[account]:
                del self._of[account]

    async def _turn(self) -> None:
        if self._places.locked() and self.waiting >= self._waiting_max:
            raise self._full()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s_max):
                await self._places.acquire()
        except TimeoutError as error:
            raise self._full() from error
        finally:
            self.waiting -= 1

    def _full(self) -> Refused:
        self.turned_away += 1
        what = f"{self.under_way} submissions are being taken in and {self.waiting} wait for that"
        return Refused("queue_full", f"{what}: send yours again", retry_after_s=RETRY_S)


class Queues:
    """How many submissions wait for each GPU type, as the read side last said.

    It is asked once a second at most, and where it says nothing nobody is kept out: what is
    accepted beyond the limit is no more than what comes in that time. `turned_away` counts whom
    intake refused for it.
    """

    def __init__(self, lookups: Lookups, queued_max: int) -> None:
        self._lookups = lookups
        self._queued_max = queued_max
        self._asked: dict[str, tuple[float, asyncio.Task[QueueSeen | None]]] = {}
        self.turned_away = 0

    async def fullness(self, gpus: Iterable[str]) -> Refused | None:
        """What is said of a submission for which a queue is too long; None if none is."""
        for gpu in gpus:
            if (waiting := await self._waiting(gpu)) >= self._queued_max:
                what = f"{waiting:,} submissions wait for {gpu} already, which is the most that may"
                said = f"{what}: send yours again when some of them are over"
                return Refused("queue_full", said, "gpu", QUEUE_RETRY_S)
        return None

    def seen(self, gpu: str) -> QueueSeen | None:
        """A GPU type's queue as it last was; None if nobody could say."""
        _, looking = self._asked.get(gpu, (0.0, None))
        return looking.result() if looking is not None and looking.done() else None

    async def _waiting(self, gpu: str) -> int:
        now = asyncio.get_running_loop().time()
        asked_at, looking = self._asked.get(gpu, (now - FRESH_S, None))
        if looking is None or now - asked_at >= FRESH_S:
            looking = asyncio.create_task(self._look(gpu))
            self._asked[gpu] = now, looking
        # Whoever asked first may hang up; the others still want to know.
        found = await asyncio.shield(looking)
        return 0 if found is None else found.waiting

    async def _look(self, gpu: str) -> QueueSeen | None:
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(LOOK_S_MAX):
                return await self._lookups.queue(gpu)
        return None
