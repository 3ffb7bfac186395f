"""Dead letters on JetStream: the server's own advisories, kept in the stream DEADLETTERS."""

from datetime import datetime

import msgspec
from nats.aio.client import Client

from shared import subjects
from shared.deadletters import TOO_OFTEN, DeadLetter, still_dead
from shared.nats.event_log import NatsLog
from shared.nats.pages import pages
from shared.nats.streams import GIVEN_UP


class _Advisory(msgspec.Struct):
    timestamp: datetime
    stream: str
    consumer: str
    stream_seq: int
    deliveries: int = 0
    reason: str = ""


_advisory = msgspec.json.Decoder(_Advisory).decode


class NatsDeadLetters:
    """What consumers of the log gave up; keeps the port shared.deadletters.DeadLetters."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def list(self) -> list[DeadLetter]:
        """The dead letters that nobody has redriven since; see the port. Errors: Failed."""
        found = await pages(self._nc, subjects.DEADLETTERS, f"{GIVEN_UP}.>")
        letters = [_letter(one.data) for one in found]
        log, redrives = NatsLog(self._nc), []
        for consumer in sorted({letter.consumer for letter in letters}):
            redrives += await log.history(subjects.redriven(consumer))
        return still_dead(letters, redrives)


def _letter(body: bytes) -> DeadLetter:
    said = _advisory(body)
    return DeadLetter(
        consumer=said.consumer,
        stream=said.stream,
        seq=said.stream_seq,
        reason=said.reason or TOO_OFTEN,
        at=said.timestamp,
        deliveries=said.deliveries,
        place=said.stream_seq,
    )
