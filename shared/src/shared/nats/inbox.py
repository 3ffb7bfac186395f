"""An agent's durable inbox: its orders, and its own events coming back, until acknowledged."""

import asyncio
import contextlib
import time
from collections import deque

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Delivery
from shared.event_log import Recorded
from shared.nats.pull import POLL_S, Pace, Pull, stream_sequence
from shared.nats.requests import ATTEMPT_S_MAX, patiently
from shared.nats.streams import SECOND_NS, Settings
from shared.wire import decode

ACK_WAIT_S = 30
DELIVERIES_MAX = 5
UNACKNOWLEDGED_MAX = 64
PACE = Pace(batch=1, waiting_max=1, heartbeat_s=5.0)

ACK, RETRY, IN_HAND = b"+ACK", b"-NAK", b"+WPI"


class NatsDelivery:
    """An event in hand; keeps the port shared.bus.Delivery."""

    def __init__(self, inbox: "NatsInbox", recorded: Recorded) -> None:
        self._inbox = inbox
        self._recorded = recorded

    @property
    def recorded(self) -> Recorded:
        """The event."""
        return self._recorded

    async def ack(self) -> None:
        """Its effect is kept; see the port."""
        await self._inbox.acknowledge(self._recorded.seq)

    async def retry(self, delay_s: float) -> None:
        """Hand it over again, after a while; see the port."""
        await self._inbox.put_back(self._recorded.seq, delay_s)


class NatsInbox:
    """The events of one agent's runs, one after the other; keeps the port shared.bus.Inbox.

    What was handed over stays in hand for as long as this process lives, however long its work
    takes: the server is told so three times in every `ack_wait_s`, and what it sends again all
    the same, after an outage, is not handed over twice.
    """

    def __init__(self, nc: Client, agent: str, ack_wait_s: float = ACK_WAIT_S) -> None:
        self._nc = nc
        self._agent = agent
        self._ack_wait_s = ack_wait_s
        self._came: deque[Msg] = deque()
        self._replies: dict[int, str] = {}
        self._done: set[int] = set()
        self._unheard: list[str] = []
        self._holding: asyncio.Task[None] | None = None
        self._pull = Pull(nc, subjects.STREAM, self._settings, self._on, PACE)

    async def next(self, within_s: float) -> Delivery | None:
        """The next event, or None if none came in that time; see the port.

        Errors: Failed if the connection is closed, or the consumer cannot be had for 30 s.
        """
        if self._holding is None:
            self._holding = asyncio.create_task(self._hold())
        until = time.monotonic() + within_s
        while not self._came:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            await self._pull.turn(0, min(left_s, POLL_S))
            await self._say_again()
        message = self._came.popleft()
        seq = stream_sequence(message.reply)
        self._replies[seq] = message.reply
        return NatsDelivery(self, Recorded(seq, decode(message.data), message.data))

    async def acknowledge(self, seq: int) -> None:
        """Have the server know that an event is done with, now or when it sends that again.

        A server that was killed may have forgotten that it sent the event, and then hears no
        answer to it; waiting for it to listen would keep the reader from what it sends instead.
        """
        reply = self._replies.pop(seq, None)
        if reply is None:
            return
        self._done.add(seq)
        if not self._nc.is_connected:
            return
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            await self._nc.request(reply, ACK, ATTEMPT_S_MAX)
            self._done.discard(seq)

    async def _say_again(self) -> None:
        """Answer what came again although it is done with."""
        while self._unheard and self._nc.is_connected:
            await self._nc.publish(self._unheard.pop(), ACK)

    async def put_back(self, seq: int, delay_s: float) -> None:
        """Have the server hand an event over again. Errors: Failed after 30 s."""
        # Forgotten first: it may come again before the server's answer does.
        reply = self._replies.pop(seq, None)
        if reply is not None:
            body = RETRY + b' {"delay": %d}' % int(delay_s * SECOND_NS)
            await patiently(self._nc, lambda: self._nc.request(reply, body, ATTEMPT_S_MAX))

    async def close(self) -> None:
        """Stop reading; what came and was not handed over goes back at once."""
        if self._holding is not None:
            self._holding.cancel()
        await self._pull.close()
        if self._nc.is_connected:
            while self._came:
                await self._nc.publish(self._came.popleft().reply, RETRY)

    async def _settings(self) -> Settings:
        # No backoff here: the server would put its first step in the place of ack_wait.
        return {
            "durable_name": subjects.agent_inbox(self._agent),
            "filter_subject": f"{subjects.subject(subjects.runs(self._agent))}.>",
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_wait_s * SECOND_NS),
            "max_deliver": DELIVERIES_MAX,
            "max_ack_pending": UNACKNOWLEDGED_MAX,
        }

    def _on(self, message: Msg) -> None:
        seq = stream_sequence(message.reply)
        if seq in self._replies:
            self._replies[seq] = message.reply
        elif seq in self._done:
            self._unheard.append(message.reply)
        else:
            self._came.append(message)

    async def _hold(self) -> None:
        while not self._nc.is_closed:
            await asyncio.sleep(self._ack_wait_s / 3)
            if self._nc.is_connected:
                for reply in list(self._replies.values()):
                    await self._nc.publish(reply, IN_HAND)
