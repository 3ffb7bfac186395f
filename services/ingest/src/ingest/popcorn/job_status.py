"""The client's job status, derived from one read and never stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ingest.popcorn.conversions import instant, terminal_text
from ingest.popcorn.response_models import JobState, RunnerQueue
from shared.api.queues import Queue
from shared.api.submissions import FullSubmission

STAGES = {
    "build": "build",
    "check": "test",
    "hidden_check": "hidden test",
    "time": "benchmark",
    "profile": "profile",
}
STATUSES: Mapping[str, Literal["no_agent", "paused"]] = {
    "no_agent": "no_agent",
    "paused": "paused",
}
WAITING = ("received", "queued")
ENDS = ("succeeded", "failed", "timed_out", "hacked")


@dataclass(frozen=True)
class JobStatus:
    """The client's job status, whether it is final, and details to display."""

    status: str
    is_done: bool = False
    error: str | None = None
    more: str = ""


def job_status(submission: FullSubmission) -> JobStatus:
    """Return the status of a submission; an ended one has its final status."""
    if not submission.is_over:
        # After a failed attempt it stays "running", although it waits for an agent again.
        is_pending = submission.state in WAITING and submission.attempt == 0
        status = "pending" if is_pending else "running"
        return JobStatus(status, more=_progress_text(submission))
    status, error = _final_status(submission)
    if error is None:
        return JobStatus(status, True)
    return JobStatus(status, True, terminal_text(error) or "no reason given")


def _progress_text(submission: FullSubmission) -> str:
    """Return what the client prints after the status."""
    if submission.state in WAITING:
        queue = queue_of(submission)
        return describe_wait(queue) if queue else ""
    if submission.state == "ranking":
        return "deciding"
    progress = submission.progress
    stage = STAGES.get(progress.stage, "") if progress else ""
    return f"{stage} {progress.done}/{progress.total}" if progress and stage else stage


def queue_of(submission: FullSubmission) -> Queue | None:
    """Return what a submission waits for; None once it has been assigned."""
    is_waiting = not submission.is_over and submission.state in WAITING
    return submission.queue if is_waiting else None


def describe_wait(queue: Queue) -> str:
    """Describe what a submission waits for."""
    if queue.state == "no_agent" or queue.reason:
        return terminal_text(queue.reason or "no agent is online", 300)
    ahead = "queued" if queue.ahead is None else f"{queue.ahead} ahead"
    return ahead if queue.eta_s is None else f"{ahead}, start in about {queue.eta_s:.0f} s"


def _final_status(submission: FullSubmission) -> tuple[str, str | None]:
    """Return the final status, and the reason unless it succeeded."""
    if submission.ranking is not None and submission.ranking.code == "disqualified":
        return "hacked", _disqualification_text(submission)
    if submission.verdict == "timed_out":
        stage = STAGES.get(submission.stage or "", "a stage")
        return "timed_out", f"the budget of {stage} is used up{_reason_suffix(submission.reason)}"
    if submission.outcome != "passed":
        return "failed", _failure_reason(submission)
    return _ranked_status(submission) if submission.mode == "ranked" else ("succeeded", None)


def _failure_reason(submission: FullSubmission) -> str:
    if submission.outcome == "cancelled":
        return f"cancelled by {_canceller_name(submission)}{_reason_suffix(submission.reason)}"
    if submission.outcome == "infra_failed":
        message = "the platform failed, not your code: your quota was refunded, submit again"
        return f"{message} ({submission.code}){_reason_suffix(submission.reason)}"
    return (
        submission.reason or f"ended {submission.verdict or submission.outcome} ({submission.code})"
    )


def _ranked_status(submission: FullSubmission) -> tuple[str, str | None]:
    """Return the status of a passed ranked run: it succeeded only if it is, or may be, ranked."""
    ranking = submission.ranking
    reason = (ranking.reason if ranking else None) or submission.reason
    if ranking is not None and ranking.status == "held":
        return "failed", f"passed, but held for review{_reason_suffix(reason)}"
    if submission.is_eligible:
        return "succeeded", None
    code = (ranking.code if ranking else None) or submission.code
    return "failed", f"passed, but not ranked ({code}){_reason_suffix(reason)}"


def _disqualification_text(submission: FullSubmission) -> str:
    moderation = submission.moderation
    rule = (moderation.rule if moderation else None) or "a rule"
    reason = moderation.reason if moderation else None
    advice = f"appeal by POST /v1/submissions/{submission.number}/appeal"
    return f"disqualified under the rule {rule!r}{_reason_suffix(reason)}; {advice}"


def _canceller_name(submission: FullSubmission) -> str:
    cancel_requests = [
        event for event in submission.timeline if event.type == "SubmissionCancelRequested"
    ]
    is_own = (
        bool(cancel_requests)
        and cancel_requests[-1].actor == f"account:{submission.participant_id}"
    )
    return "you" if is_own else "an operator"


def _reason_suffix(reason: object) -> str:
    return f": {reason}" if reason else ""


def job_response(submission: FullSubmission, *, is_long: bool = False) -> JobState:
    """Return the client's `job`; with `is_long`, an open status has details behind a colon."""
    status_now = job_status(submission)
    status = (
        f"{status_now.status}: {status_now.more}"
        if is_long and status_now.more
        else status_now.status
    )
    return {
        "status": status,
        "error": status_now.error,
        "last_heartbeat": None,
        "state": submission.state,
        "stage": submission.stage,
        "deadline": instant(submission.state_deadline_at or submission.deadline_at),
    }


def runner_queue(wait: Queue | None) -> RunnerQueue | None:
    """Return the queue in the client's form, None once the submission has been assigned."""
    return None if wait is None else queue_response(wait)


def queue_response(wait: Queue) -> RunnerQueue:
    """Return a queue in the client's form."""
    eta = "" if wait.eta_s is None else f" (start in about {wait.eta_s:.0f} s)"
    return {
        "runner": f"pool{eta}",
        "gpu": wait.gpu,
        "queued_jobs": wait.ahead or 0,
        "running_jobs": wait.agents_busy,
        "available_runners": max(0, wait.agents_online - wait.agents_busy),
        "status": STATUSES.get(wait.state, "available"),
        "error": terminal_text(wait.reason or "") or None,
    }
