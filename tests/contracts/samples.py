"""Small events to append, and helpers to read them."""

import asyncio
import json
from collections.abc import Sequence, Sized
from datetime import UTC, datetime

from nats.aio.client import Client

from shared import subjects
from shared.bus import Delivery, Inbox
from shared.clock import new_id
from shared.event_log import Feed, NewEvent, RecordedEvent
from shared.events import Fact, JobRequeued
from shared.wire import EventMetadata, make_envelope

T0 = datetime(2026, 1, 1, 12, 30, 45, 123456, tzinfo=UTC)
JOB = subjects.job("j1")
RUN = subjects.run("a1", "r1")


def new_event(
    aggregate: str,
    expected: int | None,
    *,
    id_: str | None = None,
    reason: str = "why",
    fact: Fact | None = None,
) -> NewEvent:
    """Return a minimal event, or one of a fact; its id is new unless one is given."""
    metadata = EventMetadata(id_ or new_id(), T0, "service:test", "s1", "e0")
    fact = fact or JobRequeued(run="r1", reason=reason)
    return NewEvent(make_envelope(fact, aggregate, metadata), expected)


def ids(events: Sequence[RecordedEvent | NewEvent]) -> list[str]:
    """Return the events' ids in order."""
    return [event.envelope.id for event in events]


def seqs(events: Sequence[RecordedEvent]) -> list[int]:
    """Return the events' sequences in order."""
    return [event.seq for event in events]


async def take_events(feed: Feed, count: int) -> list[RecordedEvent]:
    """Return the next events of a feed, which may deliver them in several lists."""
    events: list[RecordedEvent] = []
    async with asyncio.timeout(30):
        while len(events) < count:
            events += await feed.take(most=count - len(events))
    return events


async def api(nc: Client, what: str, body: object) -> None:
    """Ask JetStream for something, which must succeed."""
    answer = await nc.request(f"$JS.API.{what}", json.dumps(body).encode(), 2)
    assert b'"error"' not in answer.data, answer.data


async def next_delivery(inbox: Inbox, within_s: float = 10.0) -> Delivery:
    """Return the next delivery."""
    delivery = await inbox.next(within_s)
    assert delivery is not None, f"nothing came in {within_s} s"
    return delivery


def has(items: Sized, least: int) -> bool:
    """Return whether a collection has at least so many items by now."""
    return len(items) >= least
