"""Jobs for the first entries of a leaderboard, such as duels: requests, ends and results."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgspec

from ranker.domain.attestation import Fault, RunOrigin, find_fault
from ranker.domain.conclusion import Demand
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.service.append import EventCause, append_event
from ranker.service.leaderboard import PlacedEntry
from ranker.service.ports import Reads
from shared import signing, subjects
from shared.event_log import EventLog, RecordedEvent
from shared.events import (
    Blob,
    Fact,
    JobAssigned,
    JobCancelled,
    JobFinished,
    JobGivenUp,
    JobLeased,
    RejudgeItem,
    RunCompleted,
    RunStarted,
)
from shared.wire import UnknownEvent, is_genuine

END_EVENTS = (JobFinished, JobGivenUp, JobCancelled)

Row = dict[str, Any]


class JobEnd(NamedTuple):
    """How a job ended. `fault` says why its run, if any, does not count."""

    fault: Fault | None
    run: str | None = None
    agent: str = ""
    started: RunStarted | None = None
    completed: RunCompleted | None = None


@dataclass
class PodiumJobs(ABC):
    """Requests and judges one kind of jobs; deciding twice gives one event.

    `open_requests` are those without a result, by the id of their job, and `ended` the jobs that
    ended since the last check. Either is None if it must be read again.
    """

    # The statement of sql/read.sql that reads the open requests.
    statement: ClassVar[str]
    # Open requests per leaderboard; further ones wait for these.
    open_max: ClassVar[int] = 4

    log: EventLog
    reads: Reads
    demand: Demand
    is_on: bool = True
    requested: set[str] = field(default_factory=set)
    open_requests: dict[str, Row] | None = None
    ended: set[str] | None = None

    @staticmethod
    @abstractmethod
    def job_id(request: str) -> str:
        """The id of a request's job."""

    @staticmethod
    @abstractmethod
    def aggregate(request: str) -> str:
        """The aggregate of a request."""

    @abstractmethod
    def hear(self, batch: Sequence[DecodedEvent]) -> set[LeaderboardKey]:
        """Note starts and ends; return the leaderboards to check again."""

    @abstractmethod
    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request the missing jobs for the first places of a leaderboard. Raises Failed."""

    @abstractmethod
    def make_judgement(self, job: str, end: JobEnd, request: Row) -> Fact:
        """The judgement that follows from the end of a job."""

    def note_end(self, decoded: DecodedEvent) -> None:
        """Record a job that ended."""
        if isinstance(decoded.fact, END_EVENTS) and self.ended is not None:
            self.ended.add(decoded.id)

    def forget(self) -> None:
        """Check every open job again: any may have ended unnoticed."""
        self.open_requests, self.ended = None, None

    async def judge(self) -> None:
        """Judge the requests whose job is over. Raises Failed."""
        if self.open_requests is None:
            rows = await self.reads.rows(self.statement)
            self.open_requests = {self.job_id(row["id"]): row for row in rows}
        requests = self.open_requests
        for job in sorted(requests.keys() if self.ended is None else self.ended & requests.keys()):
            end, request = await read_end(self.log, self.reads, job), requests[job]
            if end is not None:
                fact, agg = self.make_judgement(job, end, request), self.aggregate(request["id"])
                cause = EventCause(request["id"])
                await append_event(self.log, agg, fact, request["seq"], cause)
        self.ended = set()

    async def append_request(self, id_: str, fact: Fact) -> None:
        """Append a request, once. Raises Failed."""
        await append_event(self.log, self.aggregate(id_), fact, 0, EventCause(id_))
        self.requested.add(id_)

    def can_request(self, id_: str, open_count: int) -> bool:
        """Whether a job was not requested yet and there is room for it."""
        return id_ not in self.requested and open_count < self.open_max


def make_rejudge_item(row: Row, gpu: str) -> RejudgeItem:
    """A submission to run again, from a row of sql/read.sql."""
    return RejudgeItem(
        submission=row["submission"],
        account=row["account"],
        gpu=gpu,
        source=make_source(row),
        name=row["name"],
    )


def make_source(row: Row) -> Blob:
    """The source of a submission, from a row of sql/read.sql."""
    return Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])


async def read_end(log: EventLog, reads: Reads, job: str) -> JobEnd | None:
    """Read how a job ended from the log's own bytes; None while it is open. Raises Failed."""
    history = [event for event in await log.history(subjects.job(job)) if _is_readable(event)]
    facts = [event.fact for event in history]
    end = next((fact for fact in facts if isinstance(fact, END_EVENTS)), None)
    if end is None:
        return None
    if not isinstance(end, JobFinished):
        return JobEnd(Fault("given_up", end.reason))
    leases = (fact for fact in facts if isinstance(fact, JobLeased))
    agent = next(lease.agent for lease in leases if lease.run == end.run)
    return await _read_run(log, reads, job, agent, end.run)


async def _read_run(log: EventLog, reads: Reads, job: str, agent: str, run: str) -> JobEnd:
    events = await log.history(subjects.run(agent, run))
    history = [event for event in events if _is_readable(event)]
    order = _find_first(history, JobAssigned)
    if order is None or order.fact.job != job:
        return JobEnd(Fault("no_run", "its run belongs to another job"), run, agent)
    # An agent's events before the order of the run are ignored.
    history = [event for event in history if event.seq > order.seq]
    started, completed = _find_first(history, RunStarted), _find_first(history, RunCompleted)
    if completed is None:
        return JobEnd(Fault("no_run", "its run has no verdict"), run, agent)
    (keys,) = await reads.rows("agent_then", agent=agent, seq=completed.seq)
    origin = RunOrigin(
        agent=agent,
        run=run,
        token=order.seq,
        sign_key=keys["sign_key"],
        key_commit=started.fact.key_commit if started else None,
        harness_code=keys["harness_code"] or "",
    )
    verdict = completed.fact
    fault = find_fault(
        completed.envelope, verdict.key, verdict.environment, origin, signing.verify_verdict
    )
    return JobEnd(fault, run, agent, started.fact if started else None, verdict)


def _is_readable(event: RecordedEvent) -> bool:
    """Whether an event is genuine and can be decoded."""
    try:
        return is_genuine(event.envelope) and event.fact is not None
    except (msgspec.MsgspecError, UnknownEvent):
        return False


def _find_first(history: Iterable[RecordedEvent], kind: type[Any]) -> Any:
    """The first event of a type, None if there is none."""
    return next((event for event in history if event.envelope.type == kind.__name__), None)
