"""The way in without a server: intake over a log in memory, and a clock that tests move."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx

from ingest.domain import problems
from ingest.domain.callers import PARTICIPANT_SCOPES, Caller
from ingest.memory import MemoryPeople
from ingest.ranker_http import Ranker
from ingest.service import Ingest, ingest
from ingest.service.batches import Upload
from ingest.service.boards import BoardWish
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports
from ingest.service.room import USUAL, Bounds
from shared.errors import Refused
from shared.memory import MemoryBlobs, MemoryBus, MemoryDeadLetters, MemoryLog
from shared.testing import eventually
from tests.support.door import FILES, KERNEL, Queue, publication, reading

T0 = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Caller("account-of-ada", "ada", PARTICIPANT_SCOPES, kind="token")
ANN = "account:account-of-ann"


class Counter:
    """The way in, and what is behind it; `at` is what time it is there."""

    def __init__(self, commands: Ingest, log: MemoryLog, blobs: MemoryBlobs) -> None:
        self.commands = commands
        self.log = log
        self.blobs = blobs
        self.at = T0

    def pass_(self, **amount: float) -> None:
        """Let time pass: `hours=1`."""
        self.at += timedelta(**amount)

    async def submit(
        self,
        key: str | None = None,
        via: str = "http",
        source: bytes = KERNEL,
        vouched_by: str = "",
    ) -> list[int]:
        """The numbers of a submission of ada's."""
        gpus, name = ("CPU", "H100"), "kernel.py"
        upload = Upload(ADA, "copy", "test", gpus, name, source, via, key, vouched_by)
        return [one.number for one in await self.commands.intake.submit(upload)]

    async def refusal(self, key: str | None = None, source: bytes = KERNEL) -> str:
        """By which code a submission of ada's is refused."""
        try:
            await self.submit(key, source=source)
        except Refused as refused:
            return refused.code
        raise AssertionError("it was taken in")

    async def close_at(self, at: datetime) -> None:
        """Let copy have a deadline."""
        change = problems.Change("r", has_deadline=True, deadline_at=at, is_forced=True)
        await self.commands.boards.change(BoardWish("copy", change), "operator:olga")


@asynccontextmanager
async def counter(
    bounds: Bounds = USUAL, queue: Queue | None = None, log: MemoryLog | None = None
) -> AsyncIterator[Counter]:
    """A way in, with the problem copy."""
    log, blobs = log or MemoryLog(), MemoryBlobs()
    letters = MemoryDeadLetters(log, MemoryBus(log))
    inner = httpx.ASGITransport(reading(log, queue))
    async with httpx.AsyncClient(transport=inner, base_url="http://ranker") as behind:
        found: Counter
        feed = AccessFeed(log, lambda: found.at)
        ports = Ports(log, blobs, MemoryPeople(), Ranker(behind), letters, lambda: found.at)
        found = Counter(ingest(ports, feed, bounds), log, blobs)
        following = asyncio.create_task(feed.run())
        await eventually(lambda: not feed.ill())
        await found.commands.authors.publish(publication("copy", FILES), ANN)
        yield found
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
