"""What every component needs with a log of some length: start, memory, processor, disk.

One log grows from length to length. At each the server is restarted, then each service starts with
what it stored before. All of them then run beside each other for a moment without work.
"""

import asyncio
import hashlib
import itertools
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nats.aio.client import Client

from bench import replay_log
from bench.noop_platform import cpu_s, peak_mib
from bench.replay_log import BEGAN, Told
from bench.replay_place import Ground, Running, ask
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.event_log import NewEvent
from shared.events import AccountOpened, Fact, SubmissionCancelRequested, TokenIssued
from shared.lifecycle import run_main
from shared.nats.batches import BATCH_MAX
from shared.nats.connection import api_request, check_ack, connect, retry_request
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.subjects import STREAM, derive_id
from shared.wire import EventMetadata, encode_envelope, make_envelope
from tests.support.waits import eventually, until
from warpboard.processes.services import EDGE, HOST, SIM, with_discord

# A submission has six events; a participant has this many submissions, and tokens.
EVENTS_PER_ACCOUNT, TOKENS_PER_ACCOUNT = 600, 2
ARCHIVED = "warpboard_ranker_archived_seq "
# A whole fold of a million events.
WAIT_S_MAX = 3600.0
WRITE_S_MAX = 120.0


class Need(NamedTuple):
    """What one component needs: its start, its memory, and its processor without work.

    `event_us` is the processor that it needs for each new event, 0 if that is not known.
    """

    name: str
    start_s: float
    mib: float
    peak_mib: float
    idle_cpu: float
    event_us: float = 0.0


class Row(NamedTuple):
    """What a log of a length costs; `new_events` were added since the row before."""

    events: int
    new_events: int
    written_s: float
    subjects: int
    log_bytes: int
    postgres_bytes: int
    needs: Sequence[Need]


class LogBench:
    """A log that grows, and the servers and services that read it."""

    def __init__(self, folder: Path, ranked_events_max: int, idle_s: float) -> None:
        self.ground = Ground(folder, with_discord)
        self.ranked_events_max = ranked_events_max
        self.idle_s = idle_s
        self._histories = replay_log.Histories()
        self._numbers = itertools.count()
        self._accounts = itertools.count()
        self._seq = 0

    def stop(self) -> None:
        """Stop both servers."""
        self.ground.stop()

    def grow(self, events: int) -> Row:
        """Make the log about this long, and measure."""
        known, began = asyncio.run(self._last()), time.monotonic()
        with self.ground.service("scheduler") as running:
            # It reads while the log is written.
            run_main(self._write(events - known))
            written_s = time.monotonic() - began
            self._end_one(running)
            spent_s = {"scheduler": cpu_s(running.process.pid)}
        nats_start_s = self._restart_nats()
        # Each reads what is new to it, and stores how far it came.
        spent_s["ingest"] = self._start_ingest()
        if is_ranked := events <= self.ranked_events_max:
            spent_s["ranker"] = self._start_ranker()
        event_us = {name: 1e6 * spent / (events - known) for name, spent in spent_s.items()}
        needs = self._measure_needs(nats_start_s, event_us, is_ranked=is_ranked)
        state, subject_count = asyncio.run(self._stream())
        return Row(
            events=asyncio.run(self._last()),
            new_events=events - known,
            written_s=written_s,
            subjects=subject_count,
            log_bytes=state,
            postgres_bytes=_folder_bytes(self.ground.folder / "postgres"),
            needs=needs,
        )

    def _measure_needs(
        self, nats_start_s: float, event_us: dict[str, float], *, is_ranked: bool
    ) -> list[Need]:
        """Start each service a second time, and look at all of them while nothing happens."""
        ground, starts = self.ground, {"nats-server": nats_start_s}
        assert ground.nats.process is not None, "it was started"
        assert ground.postgres.process is not None, "it was started"
        pids = {"nats-server": [ground.nats.process.pid]}
        with ExitStack() as stack:
            running = stack.enter_context(ground.service("scheduler"))
            starts["scheduler"] = self._end_one(running)
            pids["scheduler"] = [running.process.pid]
            if is_ranked:
                last = asyncio.run(self._last())
                running = stack.enter_context(ground.service("ranker"))
                starts["ranker"] = self._until(lambda: self._projected() >= last, running)
                pids["ranker"] = [running.process.pid]
            running = stack.enter_context(ground.service("ingest"))
            starts["ingest"] = self._until(self._is_ingest_well, running)
            pids["ingest"] = [running.process.pid]
            stack.enter_context(ground.service(SIM))
            running = stack.enter_context(ground.service(EDGE))
            starts[EDGE] = self._until(lambda: self._is_well(running), running)
            pids[EDGE] = [running.process.pid]
            pids["postgres"] = [ground.postgres.process.pid]
            before = {name: sum(map(cpu_s, own)) for name, own in pids.items()}
            time.sleep(self.idle_s)
            return [
                Need(
                    name=name,
                    start_s=starts.get(name, 0.0),
                    mib=sum(_pss_mib(pid) for one in own for pid in (one, *_children(one))),
                    peak_mib=max(map(peak_mib, own)),
                    idle_cpu=(sum(map(cpu_s, own)) - before[name]) / self.idle_s,
                    event_us=event_us.get(name, 0.0),
                )
                for name, own in pids.items()
            ]

    def _restart_nats(self) -> float:
        """Restart the server, which frees what writing needed; seconds until it has the log."""
        self.ground.nats.stop()
        began = time.monotonic()
        self.ground.nats.start()
        asyncio.run(self._last())
        return time.monotonic() - began

    def _start_ingest(self) -> float:
        """Let ingest read what is new to it; the processor that it needed."""
        with self.ground.service("ingest") as running:
            self._until(self._is_ingest_well, running)
            return cpu_s(running.process.pid)

    def _start_ranker(self) -> float:
        """Let the ranker read and archive what is new; the processor that it needed."""
        with self.ground.service("ranker") as running:
            last = asyncio.run(self._last())
            self._until(lambda: self._projected() >= last, running)
            self._until(lambda: self._archived() >= last, running)
            return cpu_s(running.process.pid)

    def _until(self, is_there: Callable[[], bool], running: Running) -> float:
        """Seconds from a service's start until something is true."""

        def check() -> bool:
            if running.process.poll() is not None:
                log = self.ground.folder / f"{running.service.name}.log"
                raise SystemExit(f"{running.service.name} ended:\n{log.read_text()[-2000:]}")
            return is_there()

        until(check, WAIT_S_MAX)
        return time.monotonic() - running.began

    def _is_ingest_well(self) -> bool:
        return ask(f"{self.ground.url('ingest')}/health") is not None

    def _is_well(self, running: Running) -> bool:
        return ask(f"http://{HOST}:{running.service.ops_port}/healthz") is not None

    def _projected(self) -> int:
        """How far the read models are, by a leaderboard that costs nothing to read."""
        board = f"/v1/leaderboards/{replay_log.EMPTY}/{replay_log.GPU}"
        found = ask(self.ground.url("ranker") + board)
        return int(found["as_of"]) if found else 0

    def _archived(self) -> int:
        """How far the archive is, by the service's own metrics."""
        lines = read_metrics(f"{self.ground.url('ranker_ops')}/metrics")
        return next((int(float(line.split()[1])) for line in lines if line.startswith(ARCHIVED)), 0)

    async def _last(self) -> int:
        nc = await connect(self.ground.nats.login(), "bench")
        try:
            await ensure_streams(nc)
            return await NatsLog(nc).last()
        finally:
            await nc.close()

    async def _stream(self) -> tuple[int, int]:
        nc = await connect(self.ground.nats.login(), "bench")
        try:
            answer = await retry_request(nc, lambda: api_request(nc, f"STREAM.INFO.{STREAM}"))
        finally:
            await nc.close()
        state = json.loads(answer)["state"]
        return state["bytes"], state["num_subjects"]

    async def _write(self, count: int) -> None:
        """Append finished submissions and their participants, in order, about `count` events."""
        nc = await connect(self.ground.nats.login(), "bench")
        told = self._tell(count)
        while batch := list(islice(told, BATCH_MAX)):
            self._seq = await publish_bulk(nc, batch, self._seq)
        await nc.close()

    def _tell(self, count: int) -> Iterator[Told]:
        accounts = max(1, count // EVENTS_PER_ACCOUNT)
        for number in islice(self._accounts, accounts):
            yield from _account(number)
        yield from self._histories.tell(count - accounts * (1 + TOKENS_PER_ACCOUNT), accounts)

    def _end_one(self, running: Running) -> float:
        """Seconds from a scheduler's start until it has dealt with what is new to it."""
        name = f"new/{next(self._numbers)}"
        return asyncio.run(end_one(self.ground.nats.login(), name, running))


async def publish_bulk(nc: Client, batch: Sequence[Told], seq: int) -> int:
    """Store a batch after the event `seq`, and return the sequence of its last event.

    A header of our own, as long as the server's, takes the place of its ids: the server keeps those
    of ten minutes in memory, in which a platform stores some thousands of events and this stores
    millions.
    """
    name = secrets.token_hex(16)
    for place, (aggregate, fact) in enumerate(batch, 1):
        corr = getattr(fact, "submission", "") or subjects.last_token(aggregate)
        is_report = aggregate.startswith("report.")
        actor = f"agent:{aggregate.split('.')[1]}" if is_report else "service:bench"
        id_ = derive_id(aggregate, str(seq + place))
        stamp = EventMetadata(id_, BEGAN, actor, corr, "bench")
        body = encode_envelope(make_envelope(fact, aggregate, stamp))
        headers = {
            "Bench-Msgs": stamp.id,
            "Bench-Expected-Last-Subject-Sequence": str(seq),
            "Nats-Batch-Id": name,
            "Nats-Batch-Sequence": str(place),
        }
        subject = subjects.subject(aggregate)
        if place < len(batch):
            await nc.publish(subject, body, headers=headers)
        else:
            commit_headers = headers | {"Nats-Batch-Commit": "1"}
            answer = await nc.request(subject, body, WRITE_S_MAX, headers=commit_headers)
            return check_ack(answer.data).seq
    raise AssertionError("a batch has at least one event")


async def end_one(login: BusLogin, name: str, running: Running) -> float:
    """Receive a submission that its participant cancels, which the scheduler has to end.

    Seconds from the scheduler's start until it did.
    """
    nc = await connect(login, "bench")
    log, submission = NatsLog(nc), derive_id(name, "new")
    aggregate, received = replay_log.received(submission, "test", "somebody")
    facts: list[Fact] = [received, SubmissionCancelRequested(reason="bench")]
    seq = 0
    for place, fact in enumerate(facts):
        id_ = derive_id(submission, str(place))
        stamp = EventMetadata(id_, now(), "service:bench", submission, "bench")
        seq = await log.append(NewEvent(make_envelope(fact, aggregate, stamp), seq))

    async def is_over() -> bool:
        assert running.process.poll() is None, "the scheduler ended"
        return (await log.newest([aggregate]))[aggregate].seq > seq

    await eventually(is_over, WAIT_S_MAX)
    await nc.close()
    return time.monotonic() - running.began


def _account(number: int) -> Iterator[Told]:
    """A participant with their tokens."""
    account = subjects.account(f"account{number}")
    yield account, AccountOpened(via="bench")
    for place in range(TOKENS_PER_ACCOUNT):
        name = f"{number}/{place}"
        issued = TokenIssued(
            token=derive_id(name, "token"),
            token_hash=hashlib.sha256(name.encode()).hexdigest(),
            kind="api",
            scopes=["submit", "submit:ranked", "read:own"],
            expires_at=replay_log.BEGAN.replace(year=replay_log.BEGAN.year + 100),
        )
        yield account, issued


def read_metrics(url: str) -> list[str]:
    """Return the lines of a page of metrics, none if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  (ours)
            lines: list[str] = answer.read().decode().splitlines()
    except (urllib.error.URLError, OSError):
        return []
    return lines


def _children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in told]


def _pss_mib(pid: int) -> float:
    """The memory of a process, of what it shares with others only its part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
