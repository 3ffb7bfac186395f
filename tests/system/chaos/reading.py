"""The whole log as the stream keeps it, the expected sequences in the headers included."""

from typing import NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.event_log import RecordedEvent
from shared.nats.connection import EXPECTED_SEQ_HEADER
from shared.nats.event_log import NatsLog
from shared.nats.pull import PullConsumer, PullLimits, stream_sequence
from shared.nats.streams import Settings
from shared.subjects import STREAM, history_of
from shared.wire import decode


class Kept(NamedTuple):
    """An event in the log; `expected` is the version that its writer had read, None if any."""

    recorded: RecordedEvent
    expected: int | None

    @property
    def seq(self) -> int:
        """Where it lies."""
        return self.recorded.seq

    @property
    def type(self) -> str:
        """What it is."""
        return self.recorded.envelope.type

    @property
    def aggregate(self) -> str:
        """What it is about."""
        return history_of(self.recorded.envelope.aggregate)


async def read(nc: Client) -> list[Kept]:
    """All events, in order."""
    last = await NatsLog(nc).last()
    found: list[Kept] = []

    def on(message: Msg) -> None:
        seq = stream_sequence(message.reply)
        expected = (message.headers or {}).get(EXPECTED_SEQ_HEADER)
        recorded = RecordedEvent(seq, decode(message.data), message.data)
        found.append(Kept(recorded, None if expected is None else int(expected)))

    async def settings() -> Settings:
        return {
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": len(found) + 1,
            "mem_storage": True,
        }

    pull = PullConsumer(nc, STREAM, settings, on, PullLimits())
    try:
        while len(found) < last:
            await pull.turn(0)
    finally:
        await pull.close()
    return found[:last]
