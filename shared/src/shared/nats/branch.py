"""Some aggregates followed from a place on: for who must not wait for all the others."""

import asyncio
from collections.abc import Sequence

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.event_log import Gap, Recorded
from shared.nats.pull import Pace, Pull, consumer_sequence, held_back, stream_sequence
from shared.nats.requests import find
from shared.nats.streams import SECOND_NS, Settings, state
from shared.subjects import STREAM, aggregate, subject
from shared.wire import read

FORGOTTEN_S = 60
PACE = Pace()


class NatsBranch:
    """What certain aggregates say after a sequence; see the port shared.event_log.Branch.

    Sequences have holes here where others spoke, so it is the consumer's own count that tells a
    message that was lost.
    """

    def __init__(self, nc: Client, aggs: Sequence[str], after: int, pace: Pace = PACE) -> None:
        self._nc = nc
        self._subjects = [subject(agg) for agg in aggs]
        self._received = after
        self._delivered = 0
        self._target: int | None = None
        self._reply = ""
        self._buffer: list[Recorded] = []
        self._damage: Exception | None = None
        self._pull = Pull(nc, STREAM, self._place, self._on, pace)

    @property
    def silent_s(self) -> float:
        """For how long nothing was heard from the server, not even that it lives."""
        return self._pull.silent_s

    @property
    def behind(self) -> int:
        """How many events are still to be taken, at least 1 until that is known."""
        if self._target is None:
            return 1
        left = held_back(self._reply) if self._reply else int(self._received < self._target)
        return left + len(self._buffer)

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one; see the port.

        Errors: Gap, after all events before it.
        """
        while not self._buffer:
            if self._damage is not None:
                raise self._damage
            await self._pull.turn(0)
        await self._pull.ask(len(self._buffer) - min(most, len(self._buffer)))
        # Nothing is awaited from here on, so that a cancelled take has taken nothing.
        taken, self._buffer = self._buffer[:most], self._buffer[most:]
        return taken

    async def close(self) -> None:
        """Stop following."""
        await self._pull.close()

    async def _place(self) -> Settings:
        found = await state(self._nc, STREAM)
        if found.first_seq > 1:
            raise Gap(f"the log begins at {found.first_seq}, not at 1: its beginning is lost")
        if found.last_seq < self._received:
            raise Gap(f"the log ends at {found.last_seq}, but {self._received} was read before")
        if self._target is None:
            self._target = await self._last()
        self._delivered, self._reply = 0, ""
        return {
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._received + 1,
            "filter_subjects": self._subjects,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }

    async def _last(self) -> int:
        """The sequence of the newest event of ours: having that is having all."""
        asked = (find(self._nc, STREAM, {"last_by_subj": one}) for one in self._subjects)
        found = await asyncio.gather(*asked)
        return max((one.seq for one in found if one is not None), default=0)

    def _on(self, message: Msg) -> None:
        if self._damage is not None:
            return
        seq, delivered = stream_sequence(message.reply), consumer_sequence(message.reply)
        if delivered != self._delivered + 1:
            self._damage = Gap(f"after event {self._received} something was lost before {seq}")
            return
        envelope = read(aggregate(message.subject), seq, message.data)
        self._received, self._delivered, self._reply = seq, delivered, message.reply
        self._buffer.append(Recorded(seq, envelope, message.data))
