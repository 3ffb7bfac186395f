"""Memory and time of a release of the kernel archive: `python -m bench.archive [--smoke]`.

The log is one that a busy platform wrote, with a million runs; the smoke form has two thousand.
Events are made as they are read, so that the memory is that of the build alone.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench import replay_log
from bench.figures import Figure, at_most, report
from ranker.releases.builder import Dataset, build_release
from shared.api.releases import Release
from shared.blobs import BlobNotFound, BlobStore
from shared.event_log import Feed, RecordedEvent
from shared.events import Blob
from shared.wire import encode, read_envelope

RUNS, SMOKE_RUNS = 1_000_000, 2_000
EVENTS_PER_RUN = 6
PAGE = 1000
MIB_MAX = 400.0


class GeneratedLog:
    """A log whose events are made when they are read, always the same ones."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def last(self) -> int:
        """Return the sequence of its newest event."""
        return self.count

    def follow(self, after: int) -> Feed:
        """Follow it from its beginning."""
        assert after == 0, "a build reads the whole log"
        return _GeneratedFeed(self._events())

    def _events(self) -> Iterator[RecordedEvent]:
        for place, event in enumerate(replay_log.new_events(self.count)):
            body = encode(event.envelope)
            yield RecordedEvent(
                place + 1, read_envelope(event.envelope.aggregate, place + 1, body), body
            )


class _GeneratedFeed:
    behind = 0

    def __init__(self, events: Iterator[RecordedEvent]) -> None:
        self._events = events

    async def take(self, most: int = PAGE) -> list[RecordedEvent]:
        """Return the next events."""
        return list(islice(self._events, min(most, PAGE)))

    async def close(self) -> None:
        """Stop following."""


class _NoBlobs:
    async def put(self, data: bytes, media: str = "") -> Blob:
        raise AssertionError(f"a build stores no blobs: {len(data)} bytes, {media}")

    async def get(self, digest: str) -> bytes:
        raise BlobNotFound(digest)


def measure(runs: int) -> tuple[Release, float, float]:
    """Build a release; also return its seconds and the most memory of this process in MiB."""
    log, blobs = GeneratedLog(runs * EVENTS_PER_RUN), _NoBlobs()
    store: BlobStore = blobs
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset(Path(folder, "kernels"), bytes(32), "", ())
        release = asyncio.run(build_release(log, store, dataset))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return release, time.monotonic() - began, peak_mib


def main() -> None:
    """Measure, and report the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="seconds")
    parser.add_argument("--runs", type=int, help="how many runs")
    options = parser.parse_args()
    runs = options.runs or (SMOKE_RUNS if options.smoke else RUNS)
    release, took_s, peak_mib = measure(runs)
    rows = release.tables["runs"].rows
    print(f"{runs} runs in the log, {rows} of ranked submissions in the release", flush=True)
    report(
        [
            Figure(
                name=f"memory of a release of {runs} runs",
                measured=peak_mib,
                unit="MiB",
                goal=at_most(MIB_MAX),
                is_held=True,
            ),
            Figure(name="rows", measured=sum(it.rows for it in release.tables.values())),
            Figure(name="events", measured=release.seq / took_s, unit="1/s"),
        ]
    )


if __name__ == "__main__":
    main()
