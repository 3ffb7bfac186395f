"""What segments and a truncation cost, and what they save on the bus.

`python -m bench.segments [--smoke] [--events N]`. A log of finished submissions on servers of its
own is archived, exported and truncated. Memory is that of nats-server after a restart, once it has
answered; a reader then reads the whole log, and some submissions that were dropped.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench import replay_log
from bench.figures import Figure, at_most, report
from bench.replay_place import Ground
from ranker.archive.archiver import Sealer, run_archiver
from ranker.archive.postgres import PACKAGE, SCHEMA, open_archive
from ranker.archive.segments import Segmenter
from ranker.domain.stored_log import SealInterval
from ranker.service.decisions import Metrics
from shared.event_log import RecordedEvent
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.streams import ensure_streams
from shared.postgres import migrate
from shared.servers.nats import NatsServer
from shared.signing import load_key

LONG, SMOKE = 200_000, 5_000
SEGMENT_EVENTS_SMOKE = 1_000
HISTORIES = 20
# Of the synthetic log, all but two problems is over; what is after the last seal stays.
LEFT_MOST = 100
Value = TypeVar("Value")


class BusSize(NamedTuple):
    """The stream and its server: messages, bytes, subjects, and resident memory in MiB."""

    messages: int
    bytes: int
    subjects: int
    mib: float


def resident_mib(server: NatsServer) -> float:
    """The memory that the server has now."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


async def measure_bus(server: NatsServer) -> BusSize:
    """Restart the server and ask it."""
    # In this thread, which starts servers; nothing else runs meanwhile.
    server.stop()
    server.start()
    nc = await connect(server.login(), "bench")
    state = await NatsSegmentedLog(nc).state()
    await nc.close()
    return BusSize(state.messages, state.bytes, state.num_subjects, resident_mib(server))


async def timed(work: Callable[[], Awaitable[Value]]) -> tuple[Value, float]:
    """What something returns, and how long it took."""
    began = time.monotonic()
    return await work(), time.monotonic() - began


async def read_all(log: NatsLog) -> list[RecordedEvent]:
    """The first events of submissions, from a whole read of the log."""
    last, seq, firsts = await log.last(), 0, list[RecordedEvent]()
    feed = log.follow(0)
    while seq < last:
        events = await feed.take()
        seq = events[-1].seq
        firsts += [event for event in events if event.envelope.type == "SubmissionReceived"]
    await feed.close()
    return firsts


async def measure(ground: Ground, count: int, segment_events: int) -> list[Figure]:
    """Fill, export, truncate and read."""
    dsn, key = ground.postgres.dsn, load_key(ground.folder / "seal.key")
    await asyncio.to_thread(migrate, dsn, PACKAGE, SCHEMA)
    nc = await connect(ground.nats.login(), "bench")
    await ensure_streams(nc)
    count = await replay_log.write(NatsLog(nc), count)
    _, whole_s = await timed(lambda: read_all(NatsLog(nc)))
    await nc.close()
    before = await measure_bus(ground.nats)
    nc = await connect(ground.nats.login(), "bench")
    log = NatsSegmentedLog(nc)
    async with open_archive(dsn) as archive:
        await run_archiver(log.log, archive, Metrics(), until=count)
        await Sealer(log.log, archive, key, SealInterval(1, 0.0), Metrics()).look()
        await run_archiver(log.log, archive, Metrics(), until=await log.log.last())
        segmenter = Segmenter(log, archive, key, segment_events)
        segments, seal_s = await timed(lambda: segmenter.seal(only_full=False))
        _, verify_s = await timed(segmenter.verify)
        truncation, truncate_s = await timed(lambda: segmenter.truncate(0.0, pause_s=0.0))
    await nc.close()
    after = await measure_bus(ground.nats)
    nc = await connect(ground.nats.login(), "bench")
    reader = NatsLog(nc)
    firsts, segmented_s = await timed(lambda: read_all(reader))
    history_s = 0.0
    for event in firsts[:: max(1, len(firsts) // HISTORIES)]:
        history, took_s = await timed(lambda: reader.history(event.envelope.aggregate))  # noqa: B023
        assert history[0] == event
        history_s = max(history_s, took_s)
    await nc.close()
    blobs = sum(segment.events.bytes + segment.histories.bytes for segment in segments)
    million = 1e6 / count
    left = after.messages - (count - truncation.seq)
    left_figure = Figure(
        name="events that the stream keeps", measured=left, goal=at_most(LEFT_MOST), is_held=True
    )
    costs_s = {
        "export": seal_s,
        "verify": verify_s,
        "truncate": truncate_s,
        "read from the stream": whole_s,
        "read from segments": segmented_s,
    }
    return [
        Figure(name="events", measured=count),
        left_figure,
        Figure(name="subjects before", measured=before.subjects),
        Figure(name="subjects after", measured=after.subjects),
        Figure(name="stream before", measured=before.bytes / 1e6, unit="MB"),
        Figure(name="stream after", measured=after.bytes / 1e6, unit="MB"),
        Figure(name="segments", measured=blobs / 1e6, unit="MB"),
        Figure(name="memory of nats-server before", measured=before.mib, unit="MiB"),
        Figure(name="memory of nats-server after", measured=after.mib, unit="MiB"),
        *(
            Figure(name=f"{name}, a million events", measured=cost_s * million, unit="s")
            for name, cost_s in costs_s.items()
        ),
        Figure(name="a history that was dropped, at most", measured=history_s * 1e3, unit="ms"),
    ]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.segments", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short, in seconds")
    parser.add_argument("--events", type=int, default=LONG, help="length of the log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        ground = Ground(Path(home))
        try:
            count = SMOKE if options.smoke else options.events
            segment_events = SEGMENT_EVENTS_SMOKE if options.smoke else 20_000
            report(asyncio.run(measure(ground, count, segment_events)))
        finally:
            ground.stop()


if __name__ == "__main__":
    main()
