"""Durable subscriptions: the events of some aggregates, each until its effect is stored."""

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Delivery
from shared.errors import Failed
from shared.event_log import RecordedEvent
from shared.events import DeadLetterRedriven
from shared.nats.connection import ATTEMPT_S_MAX, get_message, request, retry_request
from shared.nats.pull import (
    POLL_S,
    PullConsumer,
    PullLimits,
    delivery_attempt,
    delivery_start,
    find_consumer,
    stream_sequence,
)
from shared.nats.streams import SECOND_NS, Settings, stream_state
from shared.wire import UnknownEvent, decode

# What a killed process had in hand comes again after so long; a living one says so before.
ACK_WAIT_S = 10
DELIVERIES_MAX = 5
UNACKNOWLEDGED_MAX = 64
REASON_CHARS_MAX = 400
# How many answers are remembered, to be repeated.
DONE_MAX = 10_000
PULL_LIMITS = PullLimits(batch=1, waiting_max=1, heartbeat_s=5.0)
# A brief reader does not wait for its effects, so events are sent without a request for each.
PACE_BRIEF = PullLimits(batch=16, waiting_max=32, heartbeat_s=5.0)

ACK, RETRY, IN_PROGRESS, GIVE_UP = b"+ACK", b"-NAK", b"+WPI", b"+TERM"


class InboxConfig(NamedTuple):
    """Which consumer reads which aggregates (names may end in `.>`), and from where.

    It reads after a sequence, or future events only. A `brief` one keeps its position in the
    server's memory only, and does not wait for the answers to its acknowledgements.
    """

    consumer: str
    aggregates: tuple[str, ...]
    only_news: bool = False
    after: int = 0
    brief: bool = False


def agent_inbox_config(agent: str, after: int = 0) -> InboxConfig:
    """Return the config of an agent's orders and own events; a file would cost a sync for each."""
    aggregates = (f"{subjects.runs(agent)}.>", subjects.stop(agent))
    return InboxConfig(subjects.agent_inbox(agent), aggregates, after=after, brief=True)


def consumer_settings(config: InboxConfig, ack_wait_s: float = ACK_WAIT_S) -> Settings:
    """Return the settings of a consumer, without its start and the storage of its position."""
    # No backoff here: the server would replace ack_wait with its first step.
    return {
        "durable_name": config.consumer,
        "filter_subjects": [subjects.subject(aggregate) for aggregate in config.aggregates],
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * SECOND_NS),
        "max_deliver": DELIVERIES_MAX,
        "max_ack_pending": UNACKNOWLEDGED_MAX,
    }


class UnreadableMessage(Exception):  # noqa: N818
    """This message can never be delivered, and why."""


@dataclass(frozen=True)
class NatsDelivery:
    """An event in progress; implements shared.bus.Delivery."""

    inbox: "NatsInbox"
    recorded: RecordedEvent
    place: int
    attempt: int

    async def ack(self) -> None:
        """Acknowledge that its effect is stored; see the port."""
        await self.inbox.answer(self.place, ACK)

    async def retry(self, delay_s: float) -> None:
        """Ask for another delivery after a delay; see the port."""
        await self.inbox.put_back(self.place, delay_s)

    async def give_up(self, reason: str) -> None:
        """Turn it into a dead letter; see the port."""
        await self.inbox.answer(self.place, _give_up_answer(reason))


class NatsInbox:
    """The events of one durable consumer, one by one; implements shared.bus.Inbox.

    A delivered event stays in progress for as long as this process lives, however long its work
    takes: the server is told so three times in every `ack_wait_s`, and what it sends again anyway,
    after an outage, is not delivered twice. Unreadable events are given up.
    """

    def __init__(self, nc: Client, config: InboxConfig, ack_wait_s: float = ACK_WAIT_S) -> None:
        self._nc = nc
        self._config = config
        self._ack_wait_s = ack_wait_s
        self._received: deque[Msg] = deque()
        self._replies: dict[int, str] = {}
        self._returned: set[int] = set()
        self._answered: dict[int, bytes] = {}
        self._repeated_answers: list[tuple[str, bytes]] = []
        self._position: int | None = None
        self._keep_alive_task: asyncio.Task[None] | None = None
        pace = PACE_BRIEF if config.brief else PULL_LIMITS
        self._pull = PullConsumer(
            nc, subjects.STREAM, self._consumer_settings, self._handle_message, pace
        )
        self.given_up = 0

    @property
    def restarts(self) -> int:
        """How often reading had to start again."""
        return max(0, self._pull.begins - 1)

    async def next(self, within_s: float) -> Delivery | None:
        """Return the next event, or None if none came in that time; see the port.

        Errors: Failed if the connection is closed, or the consumer is unavailable for 30 s.
        """
        if self._keep_alive_task is None:
            self._keep_alive_task = asyncio.create_task(self._keep_alive())
        deadline = time.monotonic() + within_s
        while True:
            if self._received and (delivery := await self._deliver(self._received[0])):
                return delivery
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return None
            if not self._received:
                await self._pull.turn(0, min(remaining_s, POLL_S))
            # Messages that came again after they were answered.
            while self._repeated_answers and self._nc.is_connected:
                await self._nc.publish(*self._repeated_answers.pop())

    async def answer(self, place: int, word: bytes) -> None:
        """Tell the server the outcome of an event, now and whenever it sends the event again.

        A server that was killed may have forgotten that it sent the event, and then does not
        answer; waiting for it would keep us from reading what it sends instead. It may even forget
        the answers of its last moments, which it does not sync.
        """
        reply = self._replies.pop(place, None)
        if reply is None:
            return
        self._answered[place] = word
        if len(self._answered) > DONE_MAX:
            del self._answered[next(iter(self._answered))]
        self.given_up += word.startswith(GIVE_UP)
        if not self._nc.is_connected:
            return
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            if self._config.brief and word == ACK:
                await self._nc.publish(reply, word)
            else:
                await request(self._nc, reply, word)

    async def put_back(self, place: int, delay_s: float) -> None:
        """Ask the server to deliver an event again. Errors: Failed after 30 s."""
        # Removed first: it may come again before the server's answer does.
        reply = self._replies.pop(place, None)
        if reply is not None:
            self._returned.add(place)
            body = RETRY + b' {"delay": %d}' % int(delay_s * SECOND_NS)
            await retry_request(self._nc, lambda: request(self._nc, reply, body))

    async def close(self) -> None:
        """Stop reading; messages that were not delivered go back at once."""
        if self._keep_alive_task is not None:
            self._keep_alive_task.cancel()
        await self._pull.close()
        if self._nc.is_connected:
            while self._received:
                await self._nc.publish(self._received.popleft().reply, RETRY)

    async def _deliver(self, message: Msg) -> Delivery | None:
        place = stream_sequence(message.reply)
        try:
            recorded = await self._resolve_event(place, message.data)
        except UnreadableMessage as unreadable:
            self._replies[place] = self._received.popleft().reply
            await self.answer(place, _give_up_answer(str(unreadable)))
            return None
        except Failed:
            if self._nc.is_closed:
                raise
            return None
        self._replies[place] = self._received.popleft().reply
        return NatsDelivery(self, recorded, place, delivery_attempt(message.reply))

    async def _resolve_event(self, place: int, body: bytes) -> RecordedEvent:
        """Return the event, or the event that it redrives.

        Errors: UnreadableMessage; Failed if the older event cannot be read now.
        """
        recorded = read_event(place, body)
        if not isinstance(recorded.fact, DeadLetterRedriven):
            return recorded
        return await self._find_event(recorded.fact.seq)

    async def _find_event(self, seq: int) -> RecordedEvent:
        """Return an older event. Errors: UnreadableMessage; Failed if it cannot be read now."""
        original = await retry_request(
            self._nc, lambda: get_message(self._nc, subjects.STREAM, {"seq": seq}), ATTEMPT_S_MAX
        )
        if original is None:
            raise UnreadableMessage(f"there is no event {seq}")
        return read_event(seq, original.data)

    async def _consumer_settings(self) -> Settings:
        redrives = subjects.redriven(self._config.consumer)
        config = self._config._replace(aggregates=(*self._config.aggregates, redrives))
        return await self._resume_settings() | consumer_settings(config, self._ack_wait_s)

    async def _resume_settings(self) -> Settings:
        """Return where to continue: the consumer's position; ours, if the consumer is gone."""
        info = await find_consumer(self._nc, subjects.STREAM, self._config.consumer)
        if info is not None:
            self._position = max(self._position or 0, info.ack_floor.stream_seq)
            # The server does not allow changing where a consumer starts or stores its position.
            fixed = ("deliver_policy", "opt_start_seq", "mem_storage")
            return {key: info.config[key] for key in fixed if key in info.config}
        after = self._config.after
        if self._position is None and self._config.only_news:
            after = (await stream_state(self._nc, subjects.STREAM)).last_seq
        return self._delivery_start(after) | {"mem_storage": self._config.brief}

    def _delivery_start(self, after: int) -> Settings:
        """Start at the first unfinished event, else after the last one; at first after `after`."""
        if self._position is None:
            self._position = after
        received = (stream_sequence(message.reply) for message in self._received)
        unfinished = (*self._replies, *self._returned, *received)
        first = min(unfinished, default=self._position + 1)
        return delivery_start(first)

    def _handle_message(self, message: Msg) -> None:
        place = stream_sequence(message.reply)
        self._position = max(self._position or 0, place)
        self._returned.discard(place)
        if place in self._replies:
            self._replies[place] = message.reply
        elif place in self._answered:
            self._repeated_answers.append((message.reply, self._answered[place]))
        elif place not in (stream_sequence(received.reply) for received in self._received):
            self._received.append(message)

    async def _keep_alive(self) -> None:
        while not self._nc.is_closed:
            await asyncio.sleep(self._ack_wait_s / 3)
            if self._nc.is_connected:
                for reply in list(self._replies.values()):
                    await self._nc.publish(reply, IN_PROGRESS)


def read_event(seq: int, body: bytes) -> RecordedEvent:
    """Decode a readable event. Errors: UnreadableMessage."""
    try:
        recorded = RecordedEvent(seq, decode(body), body)
        _ = recorded.fact
    except (msgspec.MsgspecError, UnknownEvent) as error:
        raise UnreadableMessage(f"event {seq} cannot be read: {error}") from error
    return recorded


def _give_up_answer(reason: str) -> bytes:
    one_line_reason = " ".join(reason.split())[:REASON_CHARS_MAX]
    return GIVE_UP + b" " + one_line_reason.encode()
