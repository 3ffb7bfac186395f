"""Appends, events and blobs that a ranked submission costs: counted in the log, not timed.

`python -m bench.counts [--smoke]`. No-op agents pass at once, and participants submit one after the
other. An append is what the log syncs at once: an event alone, or an atomic batch. These numbers
are the same on every machine; what the copying of a call's tensors costs is not counted here.
"""

import argparse
import asyncio
from collections import Counter
from typing import NamedTuple

from nats.aio.client import Client as Bus
from nats.js import JetStreamContext

from bench.figures import Figure, at_most, report
from bench.noop_platform import GPU, PROBLEM, SOURCE, Platform, running_platform
from bench.pipeline_client import Client
from bench.pipeline_log import Witness
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import LARGE_STREAM
from shared.subjects import BLOBS, UPLOADS
from shared.wire import decode

AGENTS = 2
SUBMISSIONS, SUBMISSIONS_SMOKE = 50, 10
STREAM, BATCH = "EVENTS", "Nats-Batch-Id"
# Lower these when a submission costs less; they are what it costs now.
APPENDS_PER_SUBMISSION_MAX = 6.0
# One of these counts the open submissions of the participant, in one batch with the submission.
EVENTS_PER_SUBMISSION_MAX = 7.0
BLOB_MESSAGES_PER_SUBMISSION_MAX = 1.0
SETTLE_S = 2.0


class Counted(NamedTuple):
    """What some submissions left: appends and events of their own, and messages of blobs."""

    appends: int
    events: int
    blob_messages: int
    types: Counter[str]


async def _blob_messages(stream: JetStreamContext) -> int:
    """How many messages of blobs were ever stored."""
    infos = [await stream.stream_info(name) for name in (BLOBS, UPLOADS, LARGE_STREAM)]
    return sum(info.state.last_seq for info in infos)


async def _count(stream: JetStreamContext, first: int, last: int, ids: set[str]) -> Counted:
    """Read a stretch of the log, message by message."""
    batches: set[str] = set()
    types: Counter[str] = Counter()
    alone = 0
    for seq in range(first, last + 1):
        message = await stream.get_msg(STREAM, seq)
        headers = message.headers or {}
        envelope = decode(message.data or b"")
        if envelope.corr not in ids:
            continue
        types[envelope.type] += 1
        if BATCH in headers:
            batches.add(headers[BATCH])
        else:
            alone += 1
    return Counted(alone + len(batches), types.total(), 0, types)


async def measure(platform: Platform, submissions: int) -> Counted:
    """Submit one after the other, then count what is in the log."""
    bus: Bus = await connect(platform.bus_login, "bench")
    log, witness, stream = NatsLog(bus), Witness(), bus.jetstream()
    watching = asyncio.create_task(witness.watch(log, await log.last()))
    try:
        first, blobs = await log.last() + 1, await _blob_messages(stream)
        ids = set()
        async with Client(platform.url) as client:
            for number in range(submissions):
                source = f"NUMBER = {number}\n{SOURCE}".encode()
                answer = await client.submit(f"p{number}", source, problem=PROBLEM, gpu=GPU)
                assert answer.status == 202, answer
                ids.add(answer.json()["submissions"][0]["id"])
                await witness.end(answer.json()["submissions"][0]["id"])
        # The job's own end comes after the submission's.
        await asyncio.sleep(SETTLE_S)
        counted = await _count(stream, first, await log.last(), ids)
        return counted._replace(blob_messages=await _blob_messages(stream) - blobs)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await bus.close()


def figures(counted: Counted, submissions: int) -> list[Figure]:
    """What one submission costs."""
    goals = {
        "appends": (counted.appends, APPENDS_PER_SUBMISSION_MAX),
        "events": (counted.events, EVENTS_PER_SUBMISSION_MAX),
        "messages of blobs": (counted.blob_messages, BLOB_MESSAGES_PER_SUBMISSION_MAX),
    }
    return [
        Figure(
            name=f"{name} per submission",
            measured=count / submissions,
            goal=at_most(most),
            is_held=True,
        )
        for name, (count, most) in goals.items()
    ]


def main() -> None:
    """Count on a platform of our own, and stop it."""
    parser = argparse.ArgumentParser(prog="python -m bench.counts", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few submissions")
    submissions = SUBMISSIONS_SMOKE if parser.parse_args().smoke else SUBMISSIONS
    with running_platform(AGENTS) as platform:
        counted = asyncio.run(measure(platform, submissions))
    for kind, count in sorted(counted.types.items()):
        print(f"  {kind} {count / submissions:g}")
    report(figures(counted, submissions))


if __name__ == "__main__":
    main()
