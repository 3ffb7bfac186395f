"""Contract of dead letters, in memory and on JetStream: recorded, listed and redriven."""

from datetime import UTC, datetime

import msgspec
import pytest
from nats.aio.client import Client

from shared.bus import TOO_MANY_DELIVERIES, DeadLetter, redrive_event
from shared.event_log import NewEvent
from shared.nats.bus import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.inbox import NatsInbox, agent_inbox_config
from shared.subjects import agent_inbox
from shared.wire import Envelope
from tests.contracts.conftest import World
from tests.contracts.samples import T0, new_event, next_delivery
from tests.support.waits import eventually

A1 = agent_inbox("a1")
RUN = "run.a1.r1"


async def letters(world: World, count: int = 1) -> list[DeadLetter]:
    """Wait until there are so many dead letters, and return them."""

    async def read_all() -> list[DeadLetter] | None:
        current = await world.deadletters.list()
        return current if len(current) == count else None

    dead_letters = await eventually(read_all)
    assert dead_letters is not None
    return dead_letters


def of_the_future(aggregate: str) -> NewEvent:
    """Return an event of a type that this code does not know."""
    envelope = new_event(aggregate, 0).envelope
    return NewEvent(msgspec.structs.replace(envelope, type="RunLevitated"), 0)


async def redrive(world: World, letter: DeadLetter) -> int:
    return await world.log.append(redrive_event(letter, "fixed", "operator:ada", T0))


async def test_nothing_given_up_is_no_dead_letter(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new_event(RUN, 0))
    await (await next_delivery(inbox)).ack()
    assert await inbox.next(0.2) is None
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_what_is_given_up_is_told_with_its_reason(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new_event("job.j1", 0))
    seq = await world.log.append(new_event(RUN, 0))
    before = datetime.now(UTC)
    delivery = await next_delivery(inbox)
    assert delivery.attempt == 1
    await delivery.give_up("no such\nproblem")
    (letter,) = await letters(world)
    assert (letter.consumer, letter.stream, letter.seq) == (A1, "EVENTS", seq)
    assert (letter.reason, letter.deliveries) == ("no such problem", 1)
    assert abs((letter.at - before).total_seconds()) < 5
    assert await inbox.next(0.2) is None
    await inbox.close()


async def test_a_redriven_event_comes_once_more_and_alone(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    first, second = new_event(RUN, 0), new_event("run.a1.r2", 0)
    seq = await world.log.append(first)
    await world.log.append(second)
    await (await next_delivery(inbox)).give_up("not today")
    await (await next_delivery(inbox)).ack()
    (letter,) = await letters(world)
    await redrive(world, letter)
    again = await next_delivery(inbox)
    assert (again.recorded.seq, again.recorded.envelope) == (seq, first.envelope)
    await again.ack()
    assert await inbox.next(0.3) is None
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_a_redrive_waits_for_a_reader_that_is_away(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new_event(RUN, 0))
    await (await next_delivery(inbox)).give_up("not today")
    await inbox.close()
    (letter,) = await letters(world)
    await redrive(world, letter)
    later = await world.bus.inbox("a1")
    assert (await next_delivery(later)).recorded.seq == seq
    await later.close()


async def test_a_redrive_given_up_again_is_the_same_event_dead_again(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new_event(RUN, 0))
    await (await next_delivery(inbox)).give_up("not today")
    (letter,) = await letters(world)
    await redrive(world, letter)
    await (await next_delivery(inbox)).give_up("nor tomorrow")
    (again,) = await letters(world)
    assert (again.seq, again.reason) == (seq, "nor tomorrow")
    await redrive(world, again)
    assert (await next_delivery(inbox)).recorded.seq == seq
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_a_letter_redriven_twice_at_once_comes_once(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new_event(RUN, 0))
    await (await next_delivery(inbox)).give_up("not today")
    (letter,) = await letters(world)
    assert await redrive(world, letter) == await redrive(world, letter)
    await (await next_delivery(inbox)).ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_a_redrive_is_for_one_consumer_alone(world: World) -> None:
    inbox, other = await world.bus.inbox("a1"), await world.bus.inbox("a2")
    await world.log.append(new_event(RUN, 0))
    await (await next_delivery(inbox)).give_up("not today")
    (letter,) = await letters(world)
    await redrive(world, letter)
    assert await other.next(0.3) is None
    await (await next_delivery(inbox)).ack()
    for one in (inbox, other):
        await one.close()


async def test_what_cannot_be_read_is_given_up_and_not_in_the_way(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    strange = await world.log.append(of_the_future(RUN))
    plain = await world.log.append(new_event("run.a1.r2", 0))
    delivery = await next_delivery(inbox)
    assert delivery.recorded.seq == plain
    await delivery.ack()
    (letter,) = await letters(world)
    assert letter.seq == strange
    assert "no reader for event RunLevitated" in letter.reason
    await inbox.close()


async def test_what_is_put_back_too_often_is_a_dead_letter(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new_event(RUN, 0))
    for attempt in range(1, 6):
        delivery = await next_delivery(inbox)
        assert delivery.attempt == attempt
        await delivery.retry(0.01)
    assert await inbox.next(0.3) is None
    (letter,) = await letters(world)
    assert (letter.seq, letter.reason, letter.deliveries) == (seq, TOO_MANY_DELIVERIES, 5)
    await inbox.close()


@pytest.mark.server
async def test_bytes_that_are_no_event_are_given_up(client: Client) -> None:
    inbox = NatsInbox(client, agent_inbox_config("a1"))
    await client.request("events.run.a1.r1", b"no event", 2)
    assert await inbox.next(0.5) is None
    (letter,) = await NatsDeadLetters(client).list()
    assert letter.reason.startswith("event 1 cannot be read")
    assert inbox.given_up == 1
    await inbox.close()


@pytest.mark.server
async def test_what_its_readers_die_of_is_a_dead_letter_in_the_end(client: Client) -> None:
    seq = await NatsLog(client).append(new_event(RUN, 0))
    for attempt in range(1, 6):
        dying = NatsInbox(client, agent_inbox_config("a1"), ack_wait_s=0.3)
        delivery = await next_delivery(dying)
        assert (delivery.recorded.seq, delivery.attempt) == (seq, attempt)
        await dying.close()
    heir = NatsInbox(client, agent_inbox_config("a1"), ack_wait_s=0.3)
    assert await heir.next(1) is None
    (letter,) = await NatsDeadLetters(client).list()
    assert (letter.seq, letter.reason) == (seq, TOO_MANY_DELIVERIES)
    await NatsLog(client).append(redrive_event(letter, "the agent is fixed", "operator:ada", T0))
    assert (await next_delivery(heir)).recorded.seq == seq
    await heir.close()


def test_an_envelope_of_a_redrive_names_the_letter() -> None:
    letter = DeadLetter(A1, "EVENTS", 7, "why", T0, 5, 7)
    envelope: Envelope = redrive_event(letter, "fixed", "operator:ada", T0).envelope
    assert (envelope.aggregate, envelope.actor) == (f"audit.redriven.{A1}", "operator:ada")
    again = redrive_event(letter._replace(place=9), "fixed", "operator:ada", T0).envelope
    assert again.id != envelope.id
