"""Contract of outboxes: each effect at least once, under one nonce, and none of history."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client

from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.events import JobGivenUp
from shared.nats.bus import NatsBus
from shared.nats.event_log import NatsLog
from shared.nats.inbox import InboxConfig, NatsInbox
from shared.outbox import Outbox, OutboxSender
from shared.postgres import PostgresOutbox, create_pool
from shared.subjects import STREAM
from tests.contracts.conftest import World
from tests.contracts.samples import new_event
from tests.support.memory import MemoryOutbox
from tests.support.waits import eventually

NAME, AGGREGATES = "test-effects", ("ranking.>", "audit.seal")
RECORD = "ranking.matmul.H200"
DELAYS_S = (0.01, 0.01, 0.01, 0.01)


@dataclass
class Outside:
    """The outside world: the effects that reached it, and how it fails before that."""

    failures: list[Exception] = field(default_factory=list)
    reached: list[tuple[int, str]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    is_hanging: bool = False

    async def act(self, recorded: RecordedEvent, nonce: str) -> None:
        self.tried.append(nonce)
        if self.failures:
            raise self.failures.pop(0)
        self.reached.append((recorded.seq, nonce))
        if self.is_hanging:
            await asyncio.Event().wait()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.server)])
async def outbox(request: pytest.FixtureRequest) -> AsyncIterator[Outbox]:
    if request.param == "memory":
        yield MemoryOutbox()
        return
    dsn = request.getfixturevalue("postgres_dsn")
    async with create_pool(dsn, 1, 2, "accounts") as connections:
        yield PostgresOutbox(connections)


async def sending(
    world: World, outbox: Outbox, outside: Outside, types: frozenset[str] | None = None
) -> "asyncio.Task[None]":
    """Run a sender whose subscription exists when this returns."""
    inbox = await world.bus.news(NAME, *AGGREGATES)
    assert await inbox.next(0.05) is None, "nothing was said yet"
    sender = OutboxSender(inbox, outbox, "outside", outside.act, DELAYS_S, types)
    return asyncio.create_task(sender.run())


async def is_done(outbox: Outbox) -> bool:
    return await outbox.pending() == 0


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_each_event_from_now_on_has_its_effect_once(world: World, outbox: Outbox) -> None:
    await world.log.append(new_event(RECORD, 0))
    outside = Outside()
    task = await sending(world, outbox, outside)
    await world.log.append(new_event("job.j1", 0))
    expected = [
        await world.log.append(new_event(aggregate, None)) for aggregate in (RECORD, "audit.seal")
    ]
    await eventually(lambda: [seq for seq, _ in outside.reached] == expected)
    await eventually(lambda: is_done(outbox))
    await stop(task)
    assert len(set(outside.tried)) == 2


async def test_events_of_other_types_are_passed_without_a_row(world: World) -> None:
    rows, outside = MemoryOutbox(), Outside()
    wanted = JobGivenUp(attempts=1, reason="r")
    task = await sending(world, rows, outside, frozenset({type(wanted).__name__}))
    for _ in range(3):
        await world.log.append(new_event(RECORD, None))
    expected = await world.log.append(new_event(RECORD, None, fact=wanted))
    await eventually(lambda: [seq for seq, _ in outside.reached] == [expected])
    await eventually(lambda: is_done(rows))
    await stop(task)
    assert len(rows.rows) == 1


async def test_what_fails_is_tried_again_under_its_nonce(world: World, outbox: Outbox) -> None:
    outside = Outside(failures=[Failed("busy"), Failed("busy")])
    task = await sending(world, outbox, outside)
    await world.log.append(new_event(RECORD, 0))
    await eventually(lambda: outside.reached)
    await stop(task)
    assert len(outside.tried) == 3
    assert len(set(outside.tried)) == 1
    assert await world.deadletters.list() == []


async def test_what_fails_five_times_is_a_dead_letter(world: World, outbox: Outbox) -> None:
    outside = Outside(failures=[Failed("out of order")] * 5)
    task = await sending(world, outbox, outside)
    seq = await world.log.append(new_event(RECORD, 0))
    (letter,) = await eventually(world.deadletters.list)
    await stop(task)
    assert (letter.consumer, letter.seq, letter.reason) == (NAME, seq, "out of order")
    assert len(outside.tried) == 5
    assert await outbox.pending() == 1


async def test_what_is_refused_is_a_dead_letter_at_once(world: World, outbox: Outbox) -> None:
    outside = Outside(failures=[Refused("gone", "there is nobody there")])
    task = await sending(world, outbox, outside)
    await world.log.append(new_event(RECORD, 0))
    second = await world.log.append(new_event("audit.seal", 0))
    (letter,) = await eventually(world.deadletters.list)
    await eventually(lambda: [seq for seq, _ in outside.reached] == [second])
    await stop(task)
    assert letter.reason == "there is nobody there"


async def test_an_outage_of_the_rows_uses_up_no_attempt(world: World) -> None:
    rows, outside = Shaky(), Outside()
    task = await sending(world, rows, outside)
    await world.log.append(new_event(RECORD, 0))
    await eventually(lambda: outside.reached)
    await stop(task)
    assert await world.deadletters.list() == []


class Shaky(MemoryOutbox):
    """Rows of a database that is unavailable for the first calls."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 2

    async def begin(self, event: str, target: str) -> bool:
        if self.refusals:
            self.refusals -= 1
            raise Failed("the database is away")
        return await super().begin(event, target)


@pytest.mark.server
async def test_a_death_after_the_effect_repeats_it_under_its_nonce(
    client: Client, outbox: Outbox
) -> None:
    reading, outside = InboxConfig(NAME, AGGREGATES, only_news=True), Outside(is_hanging=True)
    dying = NatsInbox(client, reading, ack_wait_s=0.3)
    assert await dying.next(0.05) is None
    await NatsLog(client).append(new_event(RECORD, 0))
    task = asyncio.create_task(OutboxSender(dying, outbox, "outside", outside.act).run())
    await eventually(lambda: outside.reached)
    await stop(task)
    await dying.close()
    outside.is_hanging = False
    heir = NatsInbox(client, reading, ack_wait_s=0.3)
    task = asyncio.create_task(OutboxSender(heir, outbox, "outside", outside.act).run())
    await eventually(lambda: len(outside.reached) == 2)
    await eventually(lambda: is_done(outbox))
    await stop(task)
    await heir.close()
    assert len(set(outside.reached)) == 1


@pytest.mark.server
async def test_a_death_after_the_mark_repeats_nothing(client: Client, outbox: Outbox) -> None:
    log, bus, outside = NatsLog(client), NatsBus(client), Outside()
    inbox = await bus.news(NAME, *AGGREGATES)
    assert await inbox.next(0.05) is None
    event = new_event(RECORD, 0)
    await log.append(event)
    await outbox.begin(event.envelope.id, "outside")
    await outbox.mark(event.envelope.id, "outside")
    task = asyncio.create_task(OutboxSender(inbox, outbox, "outside", outside.act).run())
    await log.append(new_event("audit.seal", 0))
    await eventually(lambda: outside.reached)
    await stop(task)
    await inbox.close()
    assert [seq for seq, _ in outside.reached] == [2]


@pytest.mark.server
async def test_a_reading_whose_place_is_lost_goes_on_where_it_was(client: Client) -> None:
    log, bus = NatsLog(client), NatsBus(client)
    await log.append(new_event(RECORD, 0))
    inbox = await bus.news(NAME, *AGGREGATES)
    assert await inbox.next(0.05) is None
    second = await log.append(new_event(RECORD, 1))
    in_hand = await inbox.next(5)
    assert in_hand is not None
    await client.request(f"$JS.API.CONSUMER.DELETE.{STREAM}.{NAME}", b"", 2)
    third = await log.append(new_event(RECORD, second))
    later = await inbox.next(10)
    assert later is not None
    assert later.recorded.seq == third
    await in_hand.ack()
    await later.ack()
    assert await inbox.next(0.5) is None
    await inbox.close()


async def test_a_forgotten_name_begins_anew_without_history(world: World) -> None:
    inbox = await world.bus.news(NAME, *AGGREGATES)
    assert await inbox.next(0.05) is None
    await inbox.close()
    await world.log.append(new_event(RECORD, 0))
    await world.bus.forget(NAME)
    await world.bus.forget(NAME)
    anew = await world.bus.news(NAME, *AGGREGATES)
    assert await anew.next(0.2) is None
    seq = await world.log.append(new_event("audit.seal", 0))
    delivery = await anew.next(5)
    assert delivery is not None
    assert delivery.recorded.seq == seq
    await anew.close()
