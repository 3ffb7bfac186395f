"""The pump: the whole log from a place on, in order, each event once, handed over in lists."""

from collections.abc import Iterable

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.event_log import Gap, Recorded
from shared.nats.counts import Counts
from shared.nats.pull import Pace, Pull, held_back, stream_sequence
from shared.nats.streams import SECOND_NS, Settings, state
from shared.subjects import STREAM, aggregate
from shared.wire import read

FORGOTTEN_S = 60
PACE = Pace()
# Sequence, aggregate and body of an event that is not decoded yet.
Raw = tuple[int, str, bytes]


class NatsFeed:
    """Everything after a sequence; it reads unfiltered, because a filter would hide a gap."""

    def __init__(
        self, nc: Client, after: int, pace: Pace = PACE, counts: Counts | None = None
    ) -> None:
        self._nc = nc
        self._received = after
        self._held_back = 0
        self._reply = ""
        self._buffer: list[Raw] = []
        self._damage: Exception | None = None
        self._counts = Counts() if counts is None else counts
        self._pull = Pull(nc, STREAM, self.settings, self._on, pace)

    @property
    def restarts(self) -> int:
        """How often reading had to begin anew."""
        return max(0, self._pull.begins - 1)

    @property
    def silent_s(self) -> float:
        """For how long nothing was heard from the server, not even that it lives."""
        return self._pull.silent_s

    @property
    def behind(self) -> int:
        """How many events are still to be taken, as the server told with the newest of them."""
        left = held_back(self._reply) if self._reply else self._held_back
        return left + len(self._buffer)

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one; see the port.

        Errors: Gap, after all events before it.
        """
        return recorded(await self.raw(most))

    async def raw(self, most: int) -> list[Raw]:
        """The next events as they came, for who hands them on. Errors: as for take."""
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

    async def settings(self) -> Settings:
        """What a consumer of the next events is to be. Errors: Gap; Denied, Passing."""
        found = await state(self._nc, STREAM)
        self._counts.pump_restarts += self._pull.begins > 0
        if found.first_seq > 1:
            self._counts.gaps += 1
            raise Gap(f"the log begins at {found.first_seq}, not at 1: its beginning is lost")
        if found.last_seq < self._received:
            self._counts.gaps += 1
            raise Gap(f"the log ends at {found.last_seq}, but {self._received} was read before")
        self._held_back, self._reply = found.last_seq - self._received, ""
        return {
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._received + 1,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }

    def _on(self, message: Msg) -> None:
        if self._damage is not None:
            return
        seq = stream_sequence(message.reply)
        if seq != self._received + 1:
            self._counts.gaps += 1
            self._damage = Gap(f"after event {self._received} came {seq}")
            return
        self._received, self._reply = seq, message.reply
        self._buffer.append((seq, aggregate(message.subject), message.data))


def recorded(came: Iterable[Raw]) -> list[Recorded]:
    """Events with their envelopes decoded."""
    return [Recorded(seq, read(agg, seq, body), body) for seq, agg, body in came]
