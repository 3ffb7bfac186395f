"""Folds in memory: read on, never out of date, and no more of them than allowed."""

import asyncio
from collections.abc import Iterable
from functools import partial

from ingest.domain.quotas import Quota, folded
from ingest.service.histories import Histories
from shared import subjects
from shared.clock import new_id, now
from shared.event_log import New, Recorded
from shared.events import Fact, QuotaLimitSet
from shared.memory import MemoryLog
from shared.testing import eventually
from shared.wire import Stamp, seal


class Counting(MemoryLog):
    """A log that counts what it hands out."""

    handed = 0

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """Those after a sequence, counted."""
        found = await super().history(agg, after)
        self.handed += len(found)
        return found


class Slow(MemoryLog):
    """A log that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.readings = 0

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """What was there when it was asked."""
        self.readings += 1
        found = await super().history(agg, after)
        async with asyncio.timeout(30):
            await self.open.wait()
        return found


async def say(log: MemoryLog, account: str, most: int) -> None:
    fact = QuotaLimitSet(bucket="*.*.*", limit=most, window_s=60, reason="r")
    stamp = Stamp(new_id(), now(), "operator:o", account, "test")
    await log.append(New(seal(fact, subjects.quota(account), stamp), None))


def fold(state: Quota, facts: Iterable[Fact]) -> Quota:
    return folded(state, facts)


async def test_a_heavy_history_is_handed_over_once() -> None:
    log = Counting()
    histories = Histories(log)
    for most in range(50):
        await say(log, "a1", most)
        found = await histories.load(subjects.quota("a1"), Quota(), fold)
        assert found.state.limits["*.*.*"].limit == most
        assert found.seq == most + 1
    assert log.handed == 50


async def test_those_who_ask_at_once_share_a_reading() -> None:
    log = Slow()
    histories = Histories(log)
    await say(log, "a1", 1)

    async def most() -> int:
        found = await histories.load(subjects.quota("a1"), Quota(), fold)
        return found.state.limits["*.*.*"].limit

    early = [asyncio.create_task(most()) for _ in range(20)]
    await eventually(lambda: log.readings)
    await say(log, "a1", 2)
    late = [asyncio.create_task(most()) for _ in range(20)]
    log.open.set()
    assert await asyncio.gather(*late) == [2] * 20
    assert set(await asyncio.gather(*early)) <= {1, 2}
    assert log.readings == 2


async def test_a_reader_who_hangs_up_takes_nobody_along() -> None:
    log = Slow()
    histories = Histories(log)
    await say(log, "a1", 1)
    load = partial(histories.load, subjects.quota("a1"), Quota(), fold)
    first, second = asyncio.create_task(load()), asyncio.create_task(load())
    await eventually(lambda: log.readings)
    first.cancel()
    log.open.set()
    assert (await second).seq == 1


async def test_those_used_last_are_kept() -> None:
    log = Counting()
    histories = Histories(log, kept_max=2)
    for account in ("a1", "a2", "a1", "a3", "a1"):
        await say(log, account, 1)
        await histories.load(subjects.quota(account), Quota(), fold)
    assert len(histories) == 2
    log.handed = 0
    await histories.load(subjects.quota("a1"), Quota(), fold)
    await histories.load(subjects.quota("a2"), Quota(), fold)
    assert log.handed == 1
