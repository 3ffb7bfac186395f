"""Small events to append, and the ids they carry."""

import asyncio
from collections.abc import Sequence, Sized
from datetime import UTC, datetime

from shared import subjects
from shared.bus import Delivery, Inbox
from shared.clock import new_id
from shared.event_log import Feed, New, Recorded
from shared.events import JobRequeued
from shared.wire import Stamp, seal

T0 = datetime(2026, 1, 1, 12, 30, 45, 123456, tzinfo=UTC)
JOB = subjects.job("j1")
RUN = subjects.run("a1", "r1")


def new(agg: str, expected: int | None, *, id_: str | None = None, reason: str = "why") -> New:
    """An event that says little; its id is fresh unless one is given."""
    stamp = Stamp(id_ or new_id(), T0, "service:test", "s1", "e0")
    return New(seal(JobRequeued(run="r1", reason=reason), agg, stamp), expected)


def ids(events: Sequence[Recorded | New]) -> list[str]:
    """Their ids, in order."""
    return [event.envelope.id for event in events]


def seqs(events: Sequence[Recorded]) -> list[int]:
    """Their sequences, in order."""
    return [event.seq for event in events]


async def taken(feed: Feed, count: int) -> list[Recorded]:
    """The next events of a feed, which may hand them over in several lists."""
    found: list[Recorded] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await feed.take(most=count - len(found))
    return found


async def delivered(inbox: Inbox, within_s: float = 10.0) -> Delivery:
    """Return the next delivery."""
    delivery = await inbox.next(within_s)
    assert delivery is not None, f"nothing came in {within_s} s"
    return delivery


def has(found: Sized, least: int) -> bool:
    """Return whether something has so many elements by now."""
    return len(found) >= least
