"""Folds in memory: read on, never out of date, and no more of them than allowed."""

import asyncio
from collections.abc import Iterable
from functools import partial

from ingest.histories import HistoryCache
from ingest.quotas.rules import Quota, fold_uses
from shared import subjects
from shared.clock import new_id, now
from shared.event_log import NewEvent, RecordedEvent
from shared.events import Fact, QuotaLimitSet
from shared.wire import EventMetadata, make_envelope
from tests.ingest.taking_in import ANN, CountingByAggregate, open_intake
from tests.support.door import FILES, publication
from tests.support.memory import MemoryLog
from tests.support.waits import eventually


class Counting(MemoryLog):
    """A log that counts what it hands out."""

    handed = 0

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Those after a sequence, counted."""
        events = await super().history(aggregate, after)
        self.handed += len(events)
        return events


class Slow(MemoryLog):
    """A log that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.readings = 0

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """What was there when it was asked."""
        self.readings += 1
        events = await super().history(aggregate, after)
        async with asyncio.timeout(30):
            await self.open.wait()
        return events


async def say(log: MemoryLog, account: str, most: int) -> None:
    fact = QuotaLimitSet(bucket="*.*.*", limit=most, window_s=60, reason="r")
    stamp = EventMetadata(new_id(), now(), "operator:o", account, "test")
    await log.append(NewEvent(make_envelope(fact, subjects.quota(account), stamp), None))


def fold(state: Quota, facts: Iterable[Fact]) -> Quota:
    return fold_uses(state, facts)


async def test_publishing_reads_the_history_of_a_problem_once() -> None:
    log = CountingByAggregate()
    async with open_intake(log=log) as at:
        for files in (FILES, FILES | {"reference.py": FILES["reference.py"] + b"# 2\n"}):
            log.readings.clear()
            await at.commands.problems.publish(publication("copy", files), ANN)
            assert log.readings[subjects.problem("copy")] == 1


async def test_a_long_history_is_read_once() -> None:
    log = Counting()
    histories = HistoryCache(log)
    for most in range(50):
        await say(log, "a1", most)
        folded = await histories.load(subjects.quota("a1"), Quota(), fold)
        assert folded.state.limits["*.*.*"].limit == most
        assert folded.seq == most + 1
    assert log.handed == 50


async def test_concurrent_requests_share_a_read() -> None:
    log = Slow()
    histories = HistoryCache(log)
    await say(log, "a1", 1)

    async def most() -> int:
        folded = await histories.load(subjects.quota("a1"), Quota(), fold)
        return folded.state.limits["*.*.*"].limit

    early = [asyncio.create_task(most()) for _ in range(20)]
    await eventually(lambda: log.readings)
    await say(log, "a1", 2)
    late = [asyncio.create_task(most()) for _ in range(20)]
    log.open.set()
    assert await asyncio.gather(*late) == [2] * 20
    assert set(await asyncio.gather(*early)) <= {1, 2}
    assert log.readings == 2


async def test_a_cancelled_reader_does_not_cancel_others() -> None:
    log = Slow()
    histories = HistoryCache(log)
    await say(log, "a1", 1)
    load = partial(histories.load, subjects.quota("a1"), Quota(), fold)
    first, second = asyncio.create_task(load()), asyncio.create_task(load())
    await eventually(lambda: log.readings)
    first.cancel()
    log.open.set()
    assert (await second).seq == 1


async def test_recently_used_entries_are_kept() -> None:
    log = Counting()
    histories = HistoryCache(log, aggregates_max=2)
    for account in ("a1", "a2", "a1", "a3", "a1"):
        await say(log, account, 1)
        await histories.load(subjects.quota(account), Quota(), fold)
    assert len(histories) == 2
    log.handed = 0
    await histories.load(subjects.quota("a1"), Quota(), fold)
    await histories.load(subjects.quota("a2"), Quota(), fold)
    assert log.handed == 1
