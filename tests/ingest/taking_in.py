"""Intake without a server, over a log in memory, with a clock that tests move."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx

from ingest.bootstrap import Ingest, ingest
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller
from ingest.identity.scopes import PARTICIPANT_SCOPES
from ingest.ports import Ports
from ingest.problems import commands
from ingest.problems.commands import LeaderboardChange
from ingest.ranker_http import RankerClient
from ingest.submissions.admission import DEFAULT_LIMITS, AdmissionLimits
from ingest.submissions.resolution import Upload
from shared.api.submissions import SubmissionRequest
from shared.errors import Refused
from shared.event_log import RecordedEvent
from tests.support.door import FILES, KERNEL, Queue, publication, reading
from tests.support.memory import MemoryBlobStore, MemoryBus, MemoryDeadLetters, MemoryLog
from tests.support.memory_stores import MemoryAccountStore
from tests.support.waits import eventually

T0 = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Caller("account-of-ada", "ada", PARTICIPANT_SCOPES, kind="token")
ANN = "account:account-of-ann"


class CountingByAggregate(MemoryLog):
    """A log that counts its readings by aggregate."""

    def __init__(self) -> None:
        super().__init__()
        self.readings: Counter[str] = Counter()

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Those after a sequence."""
        self.readings[aggregate] += 1
        return await super().history(aggregate, after)


class IntakeHarness:
    """The services with their log; `at` is the current time of the clock."""

    def __init__(self, commands: Ingest, log: MemoryLog, blobs: MemoryBlobStore) -> None:
        self.commands = commands
        self.log = log
        self.blobs = blobs
        self.at = T0

    def advance(self, **amount: float) -> None:
        """Move the clock forward: `hours=1`."""
        self.at += timedelta(**amount)

    async def submit(
        self,
        key: str | None = None,
        via: str = "http",
        source: bytes = KERNEL,
        operator: str = "",
    ) -> list[int]:
        """Submit as ada and return the submission numbers."""
        request = SubmissionRequest("kernel.py", source, "copy", "test", ("CPU", "H100"))
        upload = Upload(ADA, request, via, key, operator)
        return [
            receipt.number for receipt in (await self.commands.intake.submit(upload)).submissions
        ]

    async def refusal(self, key: str | None = None, source: bytes = KERNEL) -> str:
        """Submit as ada and return the code of the refusal."""
        try:
            await self.submit(key, source=source)
        except Refused as refused:
            return refused.code
        raise AssertionError("it was accepted")

    async def close_at(self, at: datetime) -> None:
        """Set the deadline of copy."""
        change = commands.Change("r", has_deadline=True, deadline_at=at, is_forced=True)
        await self.commands.boards.change(LeaderboardChange("copy", change), "operator:olga")


@asynccontextmanager
async def open_intake(
    bounds: AdmissionLimits = DEFAULT_LIMITS,
    queue: Queue | None = None,
    log: MemoryLog | None = None,
) -> AsyncIterator[IntakeHarness]:
    """Open the services, with the problem copy."""
    log, blobs = log or MemoryLog(), MemoryBlobStore()
    letters = MemoryDeadLetters(log, MemoryBus(log))
    inner = httpx.ASGITransport(reading(log, queue))
    async with httpx.AsyncClient(transport=inner, base_url="http://ranker") as behind:
        opened_counter: IntakeHarness
        feed = AccessFeed(log, lambda: opened_counter.at)
        ports = Ports(
            log,
            blobs,
            MemoryAccountStore(),
            RankerClient(behind),
            letters,
            lambda: opened_counter.at,
        )
        opened_counter = IntakeHarness(ingest(ports, feed, bounds), log, blobs)
        following = asyncio.create_task(feed.run())
        await eventually(lambda: not feed.why_unhealthy())
        await opened_counter.commands.problems.publish(publication("copy", FILES), ANN)
        yield opened_counter
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
