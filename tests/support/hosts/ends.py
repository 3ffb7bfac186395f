"""Print how each submission in the log ended, as JSON: its number, and the types of its ends.

It has the settings of a ranker.
"""

import asyncio
import json
import sys
from collections import defaultdict

from ranker.settings import load
from shared.event_log import RecordedEvent
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog

READ_S_MAX = 60


async def read_log() -> list[RecordedEvent]:
    """Return all events that the log has now."""
    nc = await connect(load().bus_login, "test")
    log, events = NatsLog(nc), list[RecordedEvent]()
    last, feed = await log.last(), log.follow(0)
    async with asyncio.timeout(READ_S_MAX):
        while not events or events[-1].seq < last:
            events += await feed.take()
    await feed.close()
    await nc.close()
    return events


def main() -> int:
    """Read the log, and print the ends."""
    numbers: dict[str, int] = {}
    ends: defaultdict[int, list[str]] = defaultdict(list)
    for event in asyncio.run(read_log()):
        aggregate, kind = event.envelope.aggregate, event.envelope.type
        if kind == "SubmissionReceived":
            numbers[aggregate] = event.seq
            ends[event.seq] = []
        elif aggregate in numbers and type(event.fact).is_terminal:
            ends[numbers[aggregate]].append(kind)
    sys.stdout.write(json.dumps(ends))
    return 0


if __name__ == "__main__":
    sys.exit(main())
