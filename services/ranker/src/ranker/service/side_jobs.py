"""Jobs that end no submission: which of them are over, and what their runs found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ranker.domain.attestation import Fault, Origin, find_fault
from ranker.domain.batch import Told
from ranker.service.ports import Reads
from shared import signing, subjects
from shared.event_log import EventLog, Recorded
from shared.events import (
    JobAssigned,
    JobCancelled,
    JobFinished,
    JobGivenUp,
    JobLeased,
    RunCompleted,
    RunStarted,
)
from shared.wire import UnknownEvent, is_genuine

ENDS = (JobFinished, JobGivenUp, JobCancelled)

Row = dict[str, Any]


@dataclass
class OpenJobs:
    """The requests that have no result yet, by the id of their job.

    `statement` of sql/read.sql reads them, and `job_id` gives the job of a request. `requests` and
    `ended` are None where they must be read again.
    """

    reads: Reads
    statement: str
    job_id: Callable[[str], str]
    requests: dict[str, Row] | None = None
    ended: set[str] | None = None

    def note_end(self, told: Told) -> None:
        """Remember a job that ended."""
        if isinstance(told.fact, ENDS) and self.ended is not None:
            self.ended.add(told.id)

    def reload(self) -> None:
        """Read the requests again before the next look."""
        self.requests = None

    def forget(self) -> None:
        """Look at every open request again: any job may have ended meanwhile."""
        self.requests, self.ended = None, None

    async def list_ended(self) -> list[tuple[str, Row]]:
        """Return the jobs that may be over, each with its request. Errors: Failed."""
        if self.requests is None:
            rows = await self.reads.rows(self.statement)
            self.requests = {self.job_id(row["id"]): row for row in rows}
        ended = set(self.requests) if self.ended is None else self.ended & self.requests.keys()
        return [(job, self.requests[job]) for job in sorted(ended)]

    def clear_ended(self) -> None:
        """Forget the ends that were looked at."""
        self.ended = set()


class JobEnd(NamedTuple):
    """How a job ended. `fault` says why its run, if it had one, does not count; else None."""

    fault: Fault | None
    run: str | None = None
    agent: str = ""
    started: RunStarted | None = None
    completed: RunCompleted | None = None


async def read_end(log: EventLog, reads: Reads, job: str) -> JobEnd | None:
    """Read how a job ended from the log's own bytes; None while it is open. Errors: Failed."""
    history = [event for event in await log.history(subjects.job(job)) if _is_readable(event)]
    facts = [event.fact for event in history]
    end = next((fact for fact in facts if isinstance(fact, ENDS)), None)
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
    order = _first(history, JobAssigned)
    if order is None or order.fact.job != job:
        return JobEnd(Fault("no_run", "its run was of another job"), run, agent)
    # What an agent says of a run before its order means nothing.
    history = [event for event in history if event.seq > order.seq]
    started, completed = _first(history, RunStarted), _first(history, RunCompleted)
    if completed is None:
        return JobEnd(Fault("no_run", "its run left no verdict"), run, agent)
    (keys,) = await reads.rows("agent_then", agent=agent, seq=completed.seq)
    origin = Origin(
        agent=agent,
        run=run,
        token=order.seq,
        sign_key=keys["sign_key"],
        key_commit=started.fact.key_commit if started else None,
        harness_code=keys["harness_code"] or "",
    )
    verdict = completed.fact
    fault = find_fault(completed.envelope, verdict.key, verdict.environment, origin, signing.verify)
    return JobEnd(fault, run, agent, started.fact if started else None, verdict)


def _is_readable(event: Recorded) -> bool:
    """Whether an event is from who may write its type, and says something that can be read."""
    try:
        return is_genuine(event.envelope) and event.fact is not None
    except (msgspec.MsgspecError, UnknownEvent):
        return False


def _first(history: Iterable[Recorded], kind: type[Any]) -> Any:
    """The first event of a kind, None if there is none."""
    return next((event for event in history if event.envelope.type == kind.__name__), None)
