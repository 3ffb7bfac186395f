"""A long queue and many agents: how fast jobs are assigned, and whether in the right order.

The agents are one process with real heartbeats; they read their orders from the log, and their
reports go through the scheduler. They run nothing: a run takes a fixed time. What ranker appends,
the end of each submission, is appended here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, count, islice, starmap, zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
from nats.aio.client import Client

from bench import replay_log
from bench.noop_agent import agent_registration, enrolment
from bench.noop_platform import cpu_s, peak_mib
from bench.replay_log import GPU, Told
from bench.replay_place import Ground, Running
from bench.scale_log import end_one, publish_bulk
from scheduler.domain.queue import Policy
from scheduler.service import Heartbeat
from shared import subjects
from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, NewEvent, RecordedEvent
from shared.events import (
    AgentEnrolled,
    Fact,
    JobAssigned,
    JobLeased,
    RunCompleted,
    RunStarted,
    SubmissionFinished,
)
from shared.lifecycle import run_main
from shared.nats.agent import AgentBus, AgentLog
from shared.nats.batches import BATCH_MAX
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.reports import report_id
from shared.subjects import derive_id
from shared.wire import EventMetadata, make_envelope

PARTICIPANTS = 1000
# Every hundredth participant has so many times the jobs of another.
BUSY_EVERY, BUSY_FACTOR = 100, 10
LANES = (
    ("contest", "test"),
    ("contest", "ranked"),
    ("practice", "test"),
    ("practice", "ranked"),
)
RUN_S = 1.0
BEAT_S, TTL_S = 5.0, 15
STEP_S = 0.05
END_EVERY_S, ENDS_MAX = 0.1, 100
WORK_S_MAX = 900.0
CONNECTS_AT_ONCE = 20
FAIR_EVERY = 500


class QueuedJob(NamedTuple):
    """A submission that waits: the log's sequence, its participant and its lane."""

    seq: int
    account: str
    lane: tuple[str, str]


class Order(NamedTuple):
    """What was found about the order of leases; `jobs_ahead` is the largest unfair advantage.

    `overtaken` counts jobs that an older one of the same participant and lane overtook, and
    `lanes_starved` how often a lane with work was passed over more often than promised.
    """

    overtaken: int
    lanes_starved: int
    jobs_ahead: int


class Result(NamedTuple):
    """What a queue of some length cost."""

    jobs: int
    agents: int
    assigned: int
    took_s: float
    order: Order
    beats: int
    scheduler_cpu_s: float
    nats_cpu_s: float
    agents_cpu_s: float
    scheduler_peak_mib: float
    start_s: float = 0.0
    start_peak_mib: float = 0.0

    @property
    def rate(self) -> float:
        """Assignments per second."""
        return self.assigned / self.took_s


def measure(jobs: int, agents: int, wanted: int, folder: Path) -> Result:
    """Queue so many jobs, start a scheduler, and let the agents work off `wanted` of them."""
    names = [f"a{number}" for number in range(agents)]
    ground = Ground(folder, users=[f"agent-{name}" for name in names])
    try:
        queued = asyncio.run(_write(ground.nats.login(), jobs, agents))
        with ground.service("scheduler") as scheduler:
            # It folds the queue, and stores a snapshot when it stops.
            asyncio.run(end_one(ground.nats.login(), "first", scheduler))
        with ground.service("scheduler") as scheduler:
            start_s = asyncio.run(end_one(ground.nats.login(), "second", scheduler))
            start_peak_mib = peak_mib(scheduler.process.pid)
            result = run_main(_work(ground, scheduler, queued, names, wanted))
        return result._replace(start_s=start_s, start_peak_mib=start_peak_mib)
    finally:
        ground.stop()


async def _work(
    ground: Ground,
    scheduler: Running,
    queued: Mapping[str, QueuedJob],
    names: Sequence[str],
    wanted: int,
) -> Result:
    assert ground.nats.process is not None, "it was started"
    nats, pid = ground.nats.process.pid, scheduler.process.pid
    nc, own = await connect(ground.nats.login(), "bench"), dict[str, Client]()
    for first in range(0, len(names), CONNECTS_AT_ONCE):
        some = names[first : first + CONNECTS_AT_ONCE]
        logins = [(ground.nats.login(f"agent-{name}"), name) for name in some]
        own |= zip(some, await asyncio.gather(*starmap(connect, logins)), strict=True)
    before = cpu_s(pid), cpu_s(nats), time.process_time()
    crowd = Crowd(nc, own, queued, min(wanted, len(queued)))
    try:
        async with asyncio.timeout(WORK_S_MAX):
            await crowd.work()
    except TimeoutError as error:
        text = f"{len(crowd.given)} of {crowd.wanted} jobs were assigned in {WORK_S_MAX:.0f} s"
        raise SystemExit(f"{text}, {len(crowd.leases)} leases, {crowd.busy} agents busy") from error
    await asyncio.gather(*(client.close() for client in (nc, *own.values())))
    return Result(
        jobs=len(queued),
        agents=len(names),
        assigned=len(crowd.given),
        took_s=crowd.took_s,
        order=check_order(queued, crowd.leases, Policy().passed_max),
        beats=crowd.beats,
        scheduler_cpu_s=cpu_s(pid) - before[0],
        nats_cpu_s=cpu_s(nats) - before[1],
        agents_cpu_s=time.process_time() - before[2],
        scheduler_peak_mib=peak_mib(pid),
    )


@dataclass
class Crowd:
    """Agents that take every order, until `wanted` jobs were assigned; each with a connection."""

    nc: Client
    agents: Mapping[str, Client]
    queued: Mapping[str, QueuedJob]
    wanted: int
    leases: list[tuple[datetime, str]] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    beats: int = 0
    took_s: float = 0.0

    def __post_init__(self) -> None:
        """Nobody is busy."""
        self.log, self.names = NatsLog(self.nc), list(self.agents)
        self._buses = {name: AgentBus(nc, name) for name, nc in self.agents.items()}
        self._registration = agent_registration(GPU)
        self._busy: dict[str, str] = {}
        self._ended: list[tuple[JobAssigned, str]] = []

    @property
    def busy(self) -> int:
        """How many agents run a job now."""
        return len(self._busy)

    async def work(self) -> None:
        """Work off all jobs."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._end_submissions())
            following = group.create_task(self._follow(group))
            beating = group.create_task(self._beat_on())
            await following
            ending.cancel()
            beating.cancel()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Begin each run that is ordered, until every job had one."""
        branch, began = self.log.branch(await self.log.last(), "job.>", "run.>"), 0.0
        while len(self.given) < self.wanted:
            for event in await branch.take():
                fact = event.fact
                if isinstance(fact, JobLeased):
                    # What one look decides is stored at once, in any order.
                    self.leases.append((event.envelope.at, event.envelope.corr))
                elif isinstance(fact, JobAssigned):
                    began = began or time.monotonic()
                    self.given.add(fact.job)
                    group.create_task(self._run(event, fact))
            self.took_s = time.monotonic() - began
        await branch.close()

    async def _run(self, event: RecordedEvent, order: JobAssigned) -> None:
        _, agent, run = event.envelope.aggregate.split(".")
        assert agent not in self._busy, f"{agent} got an order too many"
        self._busy[agent] = run
        await self._beat(agent)
        started = RunStarted(
            fingerprint=self._registration.fingerprint,
            harness="2",
            level="strong",
            tier="C1",
            key_commit="0" * 64,
        )
        # Otherwise its lease is over, and the job waits again.
        with suppress(Conflict):
            version = await self._report(agent, run, order, started, event.seq)
            await asyncio.sleep(RUN_S)
            await self._report(agent, run, order, COMPLETED, version)
            self._ended.append((order, run))
        del self._busy[agent]
        await self._beat(agent)

    async def _report(
        self, agent: str, run: str, order: JobAssigned, fact: Fact, version: int
    ) -> int:
        id_ = report_id(run, type(fact).__name__, version)
        stamp = EventMetadata(id_, now(), f"agent:{agent}", order.submission, run)
        report = make_envelope(fact, subjects.report(agent, run), stamp)
        while True:
            # As gpu_agent does: a service that has much to do answers later.
            with suppress(Failed):
                return await AgentLog(self.agents[agent], agent).append(NewEvent(report, version))

    async def _beat(self, agent: str) -> None:
        run = self._busy.get(agent)
        runs = (run,) if run else ()
        heartbeat = Heartbeat(f"session of {agent}", not runs, self._registration, runs)
        self.beats += 1
        await self._buses[agent].beat(agent, msgspec.json.encode(heartbeat), TTL_S)

    async def _beat_on(self) -> None:
        """Beat for everybody in turn, each every `BEAT_S`."""
        began = time.monotonic()
        for step in count():
            share = slice(step % STEPS, None, STEPS)
            await asyncio.gather(*map(self._beat, self.names[share]))
            await asyncio.sleep(max(0.0, began + step * STEP_S - time.monotonic()))

    async def _end_submissions(self) -> None:
        """Append the ends of submissions, as a ranker does."""
        while True:
            await asyncio.sleep(END_EVERY_S)
            while batch := self._ended[:ENDS_MAX]:
                del self._ended[: len(batch)]
                events = [self._end(order, run) for order, run in batch]
                await (self.log.append_all(events) if events[1:] else self.log.append(events[0]))

    def _end(self, order: JobAssigned, run: str) -> NewEvent:
        finished = SubmissionFinished(
            outcome="passed",
            is_eligible=False,
            code="mode_not_ranked",
            reason="",
            job=order.job,
            run=run,
            verdict="passed",
        )
        aggregate = subjects.submission(order.submission)
        stamp = EventMetadata(derive_id(run, "end"), now(), "service:ranker", order.submission, run)
        return NewEvent(
            make_envelope(finished, aggregate, stamp), self.queued[order.submission].seq
        )


STEPS = round(BEAT_S / STEP_S)
COMPLETED = RunCompleted(
    verdict="passed",
    stage="check",
    reason="",
    cases=[],
    took_s=RUN_S,
    key="0" * 64,
    environment={"gpu": "none"},
)


def check_order(
    queued: Mapping[str, QueuedJob], leases: Sequence[tuple[datetime, str]], passed_max: int
) -> Order:
    """Compare the leases, with their instants, with what docs/adr/scheduling.md promises.

    It knows nothing of the scheduler's own code: only who submitted what, in which lane and when.
    """
    waiting: dict[tuple[str, str], dict[str, list[int]]] = {lane: {} for lane in LANES}
    for job in sorted(queued.values(), reverse=True):
        waiting[job.lane].setdefault(job.account, []).append(job.seq)
    passed, leased = Counter[tuple[str, str]](), Counter[str]()
    overtaken = starved = ahead = told = 0
    for look in _split(leases):
        taken = Counter[tuple[str, str]]()
        for _, submission in look:
            job = queued[submission]
            oldest = _take(waiting[job.lane], job)
            # A job that lost its agent is leased once more.
            leased[job.account] += oldest <= job.seq
            overtaken += oldest < job.seq
            taken[job.lane] += 1
        for lane in LANES:
            others = taken.total() - taken[lane]
            most = passed_max + len(LANES)
            is_empty = not waiting[lane]
            passed[lane] = 0 if is_empty else _passed(passed[lane], taken[lane], others, most)
            starved += passed[lane] > most
        if told // FAIR_EVERY < (told := told + taken.total()) // FAIR_EVERY:
            ahead = max(ahead, *(_advantage(lane_jobs, leased) for lane_jobs in waiting.values()))
    return Order(overtaken, starved, ahead)


def _split(leases: Sequence[tuple[datetime, str]]) -> Iterator[list[tuple[datetime, str]]]:
    """Yield runs of leases that were both decided and stored before the next run, each sorted.

    What one look decides is stored at once, in any order, and the next look counts from that order.
    """
    first_after = list(accumulate(reversed(leases), min))[-2::-1]
    run = list[tuple[datetime, str]]()
    for lease, following in zip_longest(leases, first_after):
        run.append(lease)
        if following is None or max(run) < following:
            yield sorted(run)
            run = []


def _passed(before: int, own: int, others: int, most: int) -> int:
    """Return how often a lane was passed over since its last lease, in the order that favours it.

    Before a look it was `before` times; the look has `own` leases of it and `others`.

    >>> _passed(3, 0, 4, 11), _passed(3, 1, 4, 11), _passed(3, 2, 30, 11)
    (7, 0, 11)
    """
    if not own:
        return before + others
    return max(0, others - max(0, most - before) - (own - 1) * most)


def _take(waiting: dict[str, list[int]], job: QueuedJob) -> int:
    """Remove a job from those that wait in its lane; return the oldest of its participant."""
    seqs = waiting.get(job.account, [])
    if job.seq not in seqs:
        return job.seq + 1
    oldest = seqs[-1]
    seqs.remove(job.seq)
    if not seqs:
        del waiting[job.account]
    return oldest


def _advantage(waiting: Mapping[str, Sequence[int]], leased: Mapping[str, int]) -> int:
    """By how many jobs who got most of those who wait in a lane is ahead of who got least."""
    counts = [leased[account] for account in waiting]
    return max(counts, default=0) - min(counts, default=0)


def _jobs(number: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Participants and lanes of `number` jobs: each participant has as many in every lane."""
    weights = [BUSY_FACTOR if n % BUSY_EVERY == 0 else 1 for n in range(PARTICIPANTS)]
    per_weight = max(1, round(number / sum(weights) / len(LANES)))
    left = {f"account{n}": weight * per_weight for n, weight in enumerate(weights)}
    told = 0
    while left and told < number:
        for account in list(left):
            for lane in LANES[: number - told]:
                told += 1
                yield account, lane
            left[account] -= 1
            if not left[account]:
                del left[account]


async def _write(login: BusLogin, jobs: int, agents: int) -> dict[str, QueuedJob]:
    """Enrol the agents and receive the submissions; return these by their id."""
    nc = await connect(login, "bench")
    await ensure_streams(nc)
    queued: dict[str, QueuedJob] = {}

    def tell() -> Iterator[Told]:
        seq = agents
        for number in range(agents):
            name = f"a{number}"
            key = enrolment(name)["sign_key"]
            yield subjects.agent(name), AgentEnrolled(sign_key=key, owner="bench")
        for account, (class_, mode) in _jobs(jobs):
            seq += 1
            submission = derive_id(str(seq), "submission")
            aggregate, fact = replay_log.received(submission, mode, account)
            queued[submission] = QueuedJob(seq, account, (class_, mode))
            yield (
                aggregate,
                msgspec.structs.replace(fact, class_=class_, deadline_at=now() + timedelta(days=2)),
            )

    told, seq = tell(), 0
    while batch := list(islice(told, BATCH_MAX)):
        seq = await publish_bulk(nc, batch, seq)
    assert await NatsLog(nc).last() == seq, "somebody else wrote"
    await nc.close()
    return queued
