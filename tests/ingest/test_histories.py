"""Folds in memory: read on, never out of date, and no more of them than allowed."""

from collections.abc import Iterable

from ingest.domain.quotas import Quota, folded
from ingest.service.histories import Histories
from shared import subjects
from shared.clock import new_id, now
from shared.event_log import New, Recorded
from shared.events import Fact, QuotaLimitSet
from shared.memory import MemoryLog
from shared.wire import Stamp, seal


class Counting(MemoryLog):
    """A log that counts what it hands out."""

    handed = 0

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """Those after a sequence, counted."""
        found = await super().history(agg, after)
        self.handed += len(found)
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
