"""A durable reading: what certain aggregates say, each event until its effect is kept."""

import asyncio
import contextlib
import time
from collections import deque
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Delivery
from shared.errors import Failed
from shared.event_log import Recorded
from shared.events import DeadLetterRedriven
from shared.nats.pull import POLL_S, Pace, Pull, attempt, stream_sequence
from shared.nats.requests import ATTEMPT_S_MAX, NO_CONSUMER, Denied, ask, find, patiently, request
from shared.nats.streams import SECOND_NS, Settings, state
from shared.wire import UnknownEvent, decode

ACK_WAIT_S = 30
DELIVERIES_MAX = 5
UNACKNOWLEDGED_MAX = 64
REASON_CHARS_MAX = 400
# How many answers are remembered, to be given again.
DONE_MAX = 10_000
PACE = Pace(batch=1, waiting_max=1, heartbeat_s=5.0)
# Who reads on whatever it has in hand is sent events without asking for each.
PACE_BRIEF = Pace(batch=16, waiting_max=32, heartbeat_s=5.0)

ACK, RETRY, IN_HAND, GIVE_UP = b"+ACK", b"-NAK", b"+WPI", b"+TERM"


class Reading(NamedTuple):
    """Who reads which aggregates (a name may end in `.>`), after a sequence or from now on.

    What is `brief` has its place in the server's memory alone, and nobody waits for its answers.
    """

    consumer: str
    aggs: tuple[str, ...]
    only_news: bool = False
    after: int = 0
    brief: bool = False


def agent_reading(agent: str, after: int = 0) -> Reading:
    """An agent's orders, and its own events coming back; on disk each would cost a file synced."""
    aggs = (f"{subjects.runs(agent)}.>",)
    return Reading(subjects.agent_inbox(agent), aggs, after=after, brief=True)


def beginning(seq: int) -> Settings:
    """Where a new consumer begins: at this sequence."""
    return {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}


def consumer_settings(reading: Reading, ack_wait_s: float = ACK_WAIT_S) -> Settings:
    """The settings of a reading's consumer, but for where it begins and where its place is kept."""
    # No backoff here: the server would put its first step in the place of ack_wait.
    return {
        "durable_name": reading.consumer,
        "filter_subjects": [subjects.subject(agg) for agg in reading.aggs],
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * SECOND_NS),
        "max_deliver": DELIVERIES_MAX,
        "max_ack_pending": UNACKNOWLEDGED_MAX,
    }


class _Floor(msgspec.Struct):
    stream_seq: int


class _Known(msgspec.Struct):
    config: Settings
    ack_floor: _Floor


class _Cannot(Exception):  # noqa: N818
    """This message can never be handed over, and why."""


_known = msgspec.json.Decoder(_Known).decode


class NatsDelivery:
    """An event in hand; keeps the port shared.bus.Delivery."""

    def __init__(self, inbox: "NatsInbox", recorded: Recorded, place: int, attempt: int) -> None:
        self._inbox = inbox
        self._recorded = recorded
        self._place = place
        self._attempt = attempt

    @property
    def recorded(self) -> Recorded:
        """The event."""
        return self._recorded

    @property
    def attempt(self) -> int:
        """How often it was handed over by now; see the port."""
        return self._attempt

    async def ack(self) -> None:
        """Its effect is kept; see the port."""
        await self._inbox.answer(self._place, ACK)

    async def retry(self, delay_s: float) -> None:
        """Hand it over again, after a while; see the port."""
        await self._inbox.put_back(self._place, delay_s)

    async def give_up(self, reason: str) -> None:
        """Make it a dead letter; see the port."""
        await self._inbox.answer(self._place, _giving_up(reason))


class NatsInbox:
    """The events of one durable consumer, one after the other; keeps the port shared.bus.Inbox.

    What was handed over stays in hand for as long as this process lives, however long its work
    takes: the server is told so three times in every `ack_wait_s`, and what it sends again all
    the same, after an outage, is not handed over twice. What nobody here can read is given up.
    """

    def __init__(self, nc: Client, reading: Reading, ack_wait_s: float = ACK_WAIT_S) -> None:
        self._nc = nc
        self._reading = reading
        self._ack_wait_s = ack_wait_s
        self._came: deque[Msg] = deque()
        self._replies: dict[int, str] = {}
        self._put_back: set[int] = set()
        self._done: dict[int, bytes] = {}
        self._unheard: list[tuple[str, bytes]] = []
        self._passed: int | None = None
        self._holding: asyncio.Task[None] | None = None
        pace = PACE_BRIEF if reading.brief else PACE
        self._pull = Pull(nc, subjects.STREAM, self._settings, self._on, pace)
        self.given_up = 0

    @property
    def restarts(self) -> int:
        """How often reading had to begin anew."""
        return max(0, self._pull.begins - 1)

    async def next(self, within_s: float) -> Delivery | None:
        """The next event, or None if none came in that time; see the port.

        Errors: Failed if the connection is closed, or the consumer cannot be had for 30 s.
        """
        if self._holding is None:
            self._holding = asyncio.create_task(self._hold())
        until = time.monotonic() + within_s
        while True:
            if self._came and (delivery := await self._handed_over(self._came[0])):
                return delivery
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            if not self._came:
                await self._pull.turn(0, min(left_s, POLL_S))
            await self._say_again()

    async def answer(self, place: int, word: bytes) -> None:
        """Have the server know how an event ended, now or when it sends that again.

        A server that was killed may have forgotten that it sent the event, and then hears no
        answer to it; waiting for it to listen would keep the reader from what it sends instead.
        It may even forget the answers of its last moments, for it does not sync those.
        """
        reply = self._replies.pop(place, None)
        if reply is None:
            return
        self._done[place] = word
        if len(self._done) > DONE_MAX:
            del self._done[next(iter(self._done))]
        self.given_up += word.startswith(GIVE_UP)
        if not self._nc.is_connected:
            return
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            if self._reading.brief and word == ACK:
                await self._nc.publish(reply, word)
            else:
                await request(self._nc, reply, word)

    async def put_back(self, place: int, delay_s: float) -> None:
        """Have the server hand an event over again. Errors: Failed after 30 s."""
        # Forgotten first: it may come again before the server's answer does.
        reply = self._replies.pop(place, None)
        if reply is not None:
            self._put_back.add(place)
            body = RETRY + b' {"delay": %d}' % int(delay_s * SECOND_NS)
            await patiently(self._nc, lambda: request(self._nc, reply, body))

    async def close(self) -> None:
        """Stop reading; what came and was not handed over goes back at once."""
        if self._holding is not None:
            self._holding.cancel()
        await self._pull.close()
        if self._nc.is_connected:
            while self._came:
                await self._nc.publish(self._came.popleft().reply, RETRY)

    async def _handed_over(self, message: Msg) -> Delivery | None:
        """The message that came first as a delivery; None when there is none to be had now."""
        place = stream_sequence(message.reply)
        try:
            recorded = await self._meant(place, message.data)
        except _Cannot as cannot:
            self._replies[place] = self._came.popleft().reply
            await self.answer(place, _giving_up(str(cannot)))
            return None
        except Failed:
            if self._nc.is_closed:
                raise
            return None
        self._replies[place] = self._came.popleft().reply
        return NatsDelivery(self, recorded, place, attempt(message.reply))

    async def _meant(self, place: int, body: bytes) -> Recorded:
        """The event, or the one that an operator has handed over again by it.

        Errors: _Cannot; Failed when the older event could not be read for now.
        """
        recorded = read_event(place, body)
        if not isinstance(recorded.fact, DeadLetterRedriven):
            return recorded
        seq = recorded.fact.seq
        found = await patiently(
            self._nc, lambda: find(self._nc, subjects.STREAM, {"seq": seq}), ATTEMPT_S_MAX
        )
        if found is None:
            raise _Cannot(f"there is no event {seq}")
        return read_event(seq, found.data)

    async def _say_again(self) -> None:
        """Answer what came again although it is done with."""
        while self._unheard and self._nc.is_connected:
            await self._nc.publish(*self._unheard.pop())

    async def _settings(self) -> Settings:
        redrives = subjects.redriven(self._reading.consumer)
        reading = self._reading._replace(aggs=(*self._reading.aggs, redrives))
        return await self._place() | consumer_settings(reading, self._ack_wait_s)

    async def _place(self) -> Settings:
        """Where to read on: where the consumer stands; where this process does, if that is gone."""
        consumer = f"{subjects.STREAM}.{self._reading.consumer}"
        try:
            known = _known(await ask(self._nc, f"CONSUMER.INFO.{consumer}"))
        except Denied as denied:
            if denied.code != NO_CONSUMER:
                raise
            return await self._new_place()
        self._passed = max(self._passed or 0, known.ack_floor.stream_seq)
        # The server lets nobody change where a consumer began, and where its place is kept.
        kept = ("deliver_policy", "opt_start_seq", "mem_storage")
        return {key: known.config[key] for key in kept if key in known.config}

    async def _new_place(self) -> Settings:
        after = self._reading.after
        if self._passed is None and self._reading.only_news:
            after = (await state(self._nc, subjects.STREAM)).last_seq
        return self._beginning(after) | {"mem_storage": self._reading.brief}

    def _beginning(self, after: int) -> Settings:
        """The first that is unfinished, else what follows on what came; at first on `after`."""
        if self._passed is None:
            self._passed = after
        came = (stream_sequence(message.reply) for message in self._came)
        unfinished = (*self._replies, *self._put_back, *came)
        first = min(unfinished, default=self._passed + 1)
        return beginning(first)

    def _on(self, message: Msg) -> None:
        place = stream_sequence(message.reply)
        self._passed = max(self._passed or 0, place)
        self._put_back.discard(place)
        if place in self._replies:
            self._replies[place] = message.reply
        elif place in self._done:
            self._unheard.append((message.reply, self._done[place]))
        elif place not in (stream_sequence(one.reply) for one in self._came):
            self._came.append(message)

    async def _hold(self) -> None:
        while not self._nc.is_closed:
            await asyncio.sleep(self._ack_wait_s / 3)
            if self._nc.is_connected:
                for reply in list(self._replies.values()):
                    await self._nc.publish(reply, IN_HAND)


def read_event(seq: int, body: bytes) -> Recorded:
    """An event that can be read. Errors: _Cannot."""
    try:
        recorded = Recorded(seq, decode(body), body)
        _ = recorded.fact
    except (msgspec.MsgspecError, UnknownEvent) as error:
        raise _Cannot(f"event {seq} cannot be read: {error}") from error
    return recorded


def _giving_up(reason: str) -> bytes:
    line = " ".join(reason.split())[:REASON_CHARS_MAX]
    return GIVE_UP + b" " + line.encode()
