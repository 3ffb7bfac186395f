"""What consumers give up is kept, told and handed over again, in memory and on JetStream alike."""

from datetime import UTC, datetime

import msgspec
import pytest
from nats.aio.client import Client

from shared.deadletters import TOO_OFTEN, DeadLetter, redriven
from shared.event_log import New
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.inbox import NatsInbox, agent_reading
from shared.subjects import agent_inbox
from shared.testing import eventually
from shared.wire import Envelope
from tests.contracts.conftest import World
from tests.contracts.samples import T0, delivered, new

A1 = agent_inbox("a1")
RUN = "run.a1.r1"


async def letters(world: World, count: int = 1) -> list[DeadLetter]:
    """So many dead letters, as soon as they are there."""

    async def enough() -> list[DeadLetter] | None:
        found = await world.deadletters.list()
        return found if len(found) == count else None

    found = await eventually(enough)
    assert found is not None
    return found


def of_the_future(agg: str) -> New:
    """An event of a type that this code does not know."""
    envelope = new(agg, 0).envelope
    return New(msgspec.structs.replace(envelope, type="RunLevitated"), 0)


async def redrive(world: World, letter: DeadLetter) -> int:
    return await world.log.append(redriven(letter, "mended", "operator:ada", T0))


async def test_nothing_given_up_is_no_dead_letter(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new(RUN, 0))
    await (await delivered(inbox)).ack()
    assert await inbox.next(0.2) is None
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_what_is_given_up_is_told_with_its_reason(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new("job.j1", 0))
    seq = await world.log.append(new(RUN, 0))
    before = datetime.now(UTC)
    delivery = await delivered(inbox)
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
    first, second = new(RUN, 0), new("run.a1.r2", 0)
    seq = await world.log.append(first)
    await world.log.append(second)
    await (await delivered(inbox)).give_up("not today")
    await (await delivered(inbox)).ack()
    (letter,) = await letters(world)
    await redrive(world, letter)
    again = await delivered(inbox)
    assert (again.recorded.seq, again.recorded.envelope) == (seq, first.envelope)
    await again.ack()
    assert await inbox.next(0.3) is None
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_a_redrive_waits_for_a_reader_that_is_away(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new(RUN, 0))
    await (await delivered(inbox)).give_up("not today")
    await inbox.close()
    (letter,) = await letters(world)
    await redrive(world, letter)
    later = await world.bus.inbox("a1")
    assert (await delivered(later)).recorded.seq == seq
    await later.close()


async def test_a_redrive_given_up_again_is_the_same_event_dead_again(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new(RUN, 0))
    await (await delivered(inbox)).give_up("not today")
    (letter,) = await letters(world)
    await redrive(world, letter)
    await (await delivered(inbox)).give_up("nor tomorrow")
    (again,) = await letters(world)
    assert (again.seq, again.reason) == (seq, "nor tomorrow")
    await redrive(world, again)
    assert (await delivered(inbox)).recorded.seq == seq
    assert await world.deadletters.list() == []
    await inbox.close()


async def test_a_letter_redriven_twice_at_once_comes_once(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    await world.log.append(new(RUN, 0))
    await (await delivered(inbox)).give_up("not today")
    (letter,) = await letters(world)
    assert await redrive(world, letter) == await redrive(world, letter)
    await (await delivered(inbox)).ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_a_redrive_is_for_one_consumer_alone(world: World) -> None:
    inbox, other = await world.bus.inbox("a1"), await world.bus.inbox("a2")
    await world.log.append(new(RUN, 0))
    await (await delivered(inbox)).give_up("not today")
    (letter,) = await letters(world)
    await redrive(world, letter)
    assert await other.next(0.3) is None
    await (await delivered(inbox)).ack()
    for one in (inbox, other):
        await one.close()


async def test_what_cannot_be_read_is_given_up_and_not_in_the_way(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    strange = await world.log.append(of_the_future(RUN))
    plain = await world.log.append(new("run.a1.r2", 0))
    delivery = await delivered(inbox)
    assert delivery.recorded.seq == plain
    await delivery.ack()
    (letter,) = await letters(world)
    assert letter.seq == strange
    assert "no reader for event RunLevitated" in letter.reason
    await inbox.close()


async def test_what_is_put_back_too_often_is_a_dead_letter(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    seq = await world.log.append(new(RUN, 0))
    for attempt in range(1, 6):
        delivery = await delivered(inbox)
        assert delivery.attempt == attempt
        await delivery.retry(0.01)
    assert await inbox.next(0.3) is None
    (letter,) = await letters(world)
    assert (letter.seq, letter.reason, letter.deliveries) == (seq, TOO_OFTEN, 5)
    await inbox.close()


@pytest.mark.server
async def test_bytes_that_are_no_event_are_given_up(client: Client) -> None:
    inbox = NatsInbox(client, agent_reading("a1"))
    await client.request("events.run.a1.r1", b"no event", 2)
    assert await inbox.next(0.5) is None
    (letter,) = await NatsDeadLetters(client).list()
    assert letter.reason.startswith("event 1 cannot be read")
    assert inbox.given_up == 1
    await inbox.close()


@pytest.mark.server
async def test_what_its_readers_die_of_is_a_dead_letter_in_the_end(client: Client) -> None:
    seq = await NatsLog(client).append(new(RUN, 0))
    for attempt in range(1, 6):
        dying = NatsInbox(client, agent_reading("a1"), ack_wait_s=0.3)
        delivery = await delivered(dying)
        assert (delivery.recorded.seq, delivery.attempt) == (seq, attempt)
        await dying.close()
    heir = NatsInbox(client, agent_reading("a1"), ack_wait_s=0.3)
    assert await heir.next(1) is None
    (letter,) = await NatsDeadLetters(client).list()
    assert (letter.seq, letter.reason) == (seq, TOO_OFTEN)
    await NatsLog(client).append(redriven(letter, "the agent is mended", "operator:ada", T0))
    assert (await delivered(heir)).recorded.seq == seq
    await heir.close()


def test_an_envelope_of_a_redrive_names_the_letter() -> None:
    letter = DeadLetter(A1, "EVENTS", 7, "why", T0, 5, 7)
    envelope: Envelope = redriven(letter, "mended", "operator:ada", T0).envelope
    assert (envelope.agg, envelope.actor) == (f"audit.redriven.{A1}", "operator:ada")
    again = redriven(letter._replace(place=9), "mended", "operator:ada", T0).envelope
    assert again.id != envelope.id
