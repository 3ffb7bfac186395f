"""The spans of the jobs that are given to agents."""

from collections.abc import Iterator
from datetime import datetime

from scheduler.domain.state import Decision, Job, SchedulerState
from shared.events import JobLeased
from shared.subjects import last_token
from shared.tracing import REQUEST, Attributes, Span, assignment_key

# What a request to ingest led to; all other jobs begin a trace of their own, or are parts of one.
REQUESTED = ("submission", "evaluation")


def lease_spans(
    state: SchedulerState, batch: Decision, began_ns: int, ended_ns: int
) -> Iterator[Span]:
    """Yield the spans of the leases in a batch that was appended between these times.

    `state` is that before the batch: it says since when a job has waited.
    """
    for append in batch:
        if isinstance(append.fact, JobLeased):
            job = state.jobs.get(last_token(append.aggregate))
            if job is not None:
                yield from _spans_of_lease(job, append.fact, began_ns, ended_ns)


def _spans_of_lease(job: Job, lease: JobLeased, began_ns: int, ended_ns: int) -> Iterator[Span]:
    parent = REQUEST if job.kind in REQUESTED else ""
    queue = f"{lease.run}/queue"
    attributes: Attributes = {
        "warpboard.kind": job.kind,
        "warpboard.problem": job.problem,
        "warpboard.gpu": job.gpu,
        "warpboard.mode": job.mode,
        "warpboard.attempt": lease.attempt,
    }
    queued_ns = min(_nanoseconds(job.queued_at), began_ns)
    yield Span(job.submission, queue, parent, "queue", queued_ns, began_ns, "consumer", attributes)
    assignment: Attributes = {"warpboard.agent": lease.agent, "warpboard.run": lease.run}
    yield Span(
        *(job.submission, assignment_key(lease.run), queue, "assign"),
        *(began_ns, ended_ns, "producer", assignment),
    )


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1e6) * 1000
