"""Events/s of a full rebuild, and what a start costs when all of it was folded before.

`python -m bench.replay [--quick | --smoke | --events N ...]`. For each length: a log as a busy
platform writes it; the bare limit, nats-py's callback consumer that counts; the ranker from event
1; a rebuild beside it, compared, from the log and from its archive, whose chain it checks; and the
seconds from the start of a ranker and of a scheduler that knew the whole log until they have dealt
with one new event.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import replay_log
from bench.figures import Figure, at_least, report
from bench.noop_platform import cpu_s, load, peak_mib
from bench.replay_place import Cost, Ground, Running, ask, cost
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.event_log import NewEvent
from shared.events import SubmissionCancelRequested
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.subjects import derive_id
from shared.wire import EventMetadata, make_envelope
from tests.support.waits import eventually

# So many that a process's start, about a second, is nothing beside reading them.
LONG, QUICK, SMOKE = (1_000_000,), (2_000, 10_000), (1_000,)
# Of a bare consumer's rate.
REBUILD_MIN = 0.5
# What a start takes varies by some tenths of a second: a shorter read is not compared.
COMPARED_S_MIN = 1.0
WAIT_S_MAX = 900.0
STEP_S = 0.02
ARCHIVED = "warpboard_ranker_archived_seq "
# Each look is an answer that the same process has to give.
FOLDING_STEP_S = 0.2


class Row(NamedTuple):
    """What one length of the log cost."""

    events: int
    bare: Cost
    first: Cost
    rebuild: Cost
    archived: Cost
    ranker_start_s: float
    scheduler_start_s: float
    load: str

    @property
    def is_comparable(self) -> bool:
        """Whether the log is long enough to compare rates."""
        return self.bare.s >= COMPARED_S_MIN


def measure(events: int, folder: Path) -> Row:
    """Everything for one length."""
    ground = Ground(folder)
    try:
        events = asyncio.run(_write(ground.nats.login(), events))
        bare = _bare(ground, events)
        with ground.service("ranker") as ranker:
            first_s = _until(lambda: _folded(ground) >= events, ranker, FOLDING_STEP_S)
            pid = ranker.process.pid
            first = Cost(first_s, cpu_s(pid), peak_mib(pid))
            archived = _archive_all(ground, ranker)
        # A ranker appends events of its own, such as records, until it is stopped.
        while asyncio.run(_last(ground.nats.login())) > archived:
            with ground.service("ranker") as ranker:
                archived = _archive_all(ground, ranker)
        rebuild = ground.command("ranker", "rebuild")
        replayed = ground.command("ranker", "replay", "--source", "archive")
        with ground.service("ranker") as ranker:
            last = asyncio.run(_submit(ground.nats.login(), "ranker"))
            ranker_start_s = _until(lambda: _folded(ground) >= last, ranker)
        _scheduler_start(ground, "first")
        scheduler_start_s = _scheduler_start(ground, "second")
    finally:
        ground.stop()
    return Row(events, bare, first, rebuild, replayed, ranker_start_s, scheduler_start_s, load())


async def _write(login: BusLogin, events: int) -> int:
    nc = await connect(login, "bench")
    await ensure_streams(nc)
    began = time.monotonic()
    written = await replay_log.write(NatsLog(nc), events)
    print(f"{written} events written in {time.monotonic() - began:.1f} s", flush=True)
    await nc.close()
    return written


def _bare(ground: Ground, events: int) -> Cost:
    login = ground.nats.login()
    command = [sys.executable, "-m", "bench.replay_bare", login.url, login.credentials, str(events)]
    return cost(command, os.environ)


def _folded(ground: Ground) -> int:
    """How far the read models are, by a leaderboard that costs nothing to read."""
    board = f"/v1/leaderboards/{replay_log.EMPTY}/{replay_log.GPU}"
    found = ask(ground.url("ranker") + board)
    return int(found["as_of"]) if found else 0


def _archived(ground: Ground) -> int:
    """How far the archive is, by the service's own metrics; 0 until the service listens."""
    url = f"{ground.url('ranker_ops')}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S_MAX) as answer:  # noqa: S310  (ours)
            lines = answer.read().decode().splitlines()
    except urllib.error.URLError:
        return 0
    return next((int(float(line.split()[1])) for line in lines if line.startswith(ARCHIVED)), 0)


def _archive_all(ground: Ground, ranker: Running) -> int:
    """Wait until the archive holds the whole log, and return the log's last sequence."""
    last = asyncio.run(_last(ground.nats.login()))
    _until(lambda: _archived(ground) >= last, ranker, FOLDING_STEP_S)
    return last


async def _last(login: BusLogin) -> int:
    nc = await connect(login, "bench")
    try:
        return await NatsLog(nc).last()
    finally:
        await nc.close()


def _until(is_there: Callable[[], bool], running: Running, step_s: float = STEP_S) -> float:
    """Seconds from a service's start until something is true."""
    while not is_there():
        if running.process.poll() is not None:
            raise SystemExit(f"{running.service.name} ended")
        if time.monotonic() - running.began > WAIT_S_MAX:
            raise SystemExit(f"{running.service.name} was not there after {WAIT_S_MAX:.0f} s")
        time.sleep(step_s)
    return time.monotonic() - running.began


async def _submit(login: BusLogin, name: str) -> int:
    """One more submission; its sequence."""
    nc = await connect(login, "bench")
    submission = derive_id(name, "new")
    aggregate, fact = replay_log.received(submission, "test", "somebody")
    stamp = EventMetadata(
        derive_id(submission, "event"), now(), "service:bench", submission, "bench"
    )
    seq = await NatsLog(nc).append(NewEvent(make_envelope(fact, aggregate, stamp), 0))
    await nc.close()
    return seq


def _scheduler_start(ground: Ground, name: str) -> float:
    """Seconds from a scheduler's start until it has cancelled a submission that is new to it."""
    seq = asyncio.run(_submit(ground.nats.login(), f"scheduler/{name}"))
    aggregate = subjects.submission(derive_id(f"scheduler/{name}", "new"))
    asyncio.run(_cancel(ground.nats.login(), aggregate, seq))
    with ground.service("scheduler") as scheduler:
        took_s = asyncio.run(_ended(ground.nats.login(), aggregate, scheduler))
        # It may keep what it knows for the next start.
        time.sleep(2.0)
    return took_s


async def _cancel(login: BusLogin, aggregate: str, version: int) -> None:
    """Request the end of a submission."""
    nc = await connect(login, "bench")
    stamp = EventMetadata(
        derive_id(aggregate, "cancel"),
        now(),
        "service:bench",
        subjects.last_token(aggregate),
        "bench",
    )
    requested = make_envelope(SubmissionCancelRequested(reason="bench"), aggregate, stamp)
    await NatsLog(nc).append(NewEvent(requested, version))
    await nc.close()


async def _ended(login: BusLogin, aggregate: str, scheduler: Running) -> float:
    nc = await connect(login, "bench")
    log = NatsLog(nc)

    async def is_over() -> bool:
        return (await log.history(aggregate))[-1].envelope.type == "SubmissionFinished"

    await eventually(is_over, WAIT_S_MAX)
    await nc.close()
    return time.monotonic() - scheduler.began


def _print(row: Row) -> None:
    """Print what one length of the log cost."""
    print(
        f"{row.events:9} events: start with all of it known: ranker {row.ranker_start_s:.2f} s, "
        f"scheduler {row.scheduler_start_s:.2f} s  ({row.load})"
    )
    named = {
        "bare consumer": row.bare,
        "ranker from event 1": row.first,
        "rebuild": row.rebuild,
        "rebuild from the archive": row.archived,
    }
    if not row.is_comparable:
        print(f"{row.events:9} events: too few to compare rates", flush=True)
        return
    for name, one in named.items():
        print(
            f"{name:>30} {row.events / one.s:8.0f}/s, {row.bare.s / one.s:.2f} of bare;  "
            f"{1e6 * one.cpu_s / row.events:5.1f} us of processor each, "
            f"{row.bare.cpu_s / one.cpu_s:.2f} of bare;  {one.mib:.0f} MiB",
            flush=True,
        )


def _figures(rows: Sequence[Row]) -> list[Figure]:
    """The rates of each length beside those of a bare consumer, and the starts of the longest."""
    rates = [
        Figure(
            name=f"{row.events} events: {name} of a bare consumer",
            measured=row.bare.s / rebuild.s,
            goal=at_least(REBUILD_MIN),
            note="decoding and folding an event costs more than reading it "
            "(docs/adr/replay-and-audit.md)",
        )
        for row in rows
        if row.is_comparable
        for name, rebuild in (("rebuild", row.rebuild), ("rebuild from the archive", row.archived))
    ]
    last = rows[-1]
    starts = {"ranker": last.ranker_start_s, "scheduler": last.scheduler_start_s}
    return rates + [
        Figure(name=f"{last.events} events: {name}'s start", measured=start_s, unit="s")
        for name, start_s in starts.items()
    ]


def main() -> None:
    """Measure each length on servers of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short logs alone")
    parser.add_argument("--smoke", action="store_true", help="one very short log")
    parser.add_argument("--events", type=int, nargs="+", help="lengths of one's own")
    told = parser.parse_args()
    lengths = SMOKE if told.smoke else QUICK if told.quick else LONG
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        for events in told.events or lengths:
            folder = Path(home, str(events))
            folder.mkdir()
            rows.append(measure(events, folder))
            _print(rows[-1])
    report(_figures(rows))


if __name__ == "__main__":
    main()
