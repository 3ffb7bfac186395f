"""Conversions between the client's terms and ours, and its status of a job."""

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple, overload

from harness.vocabulary import MODES, STAGES, SUBMISSION_MODES
from ingest.popcorn.response_models import JobState, RunnerQueue
from shared.api.queues import Queue
from shared.api.submissions import FullSubmission
from shared.endings import AGENTS_LOST
from shared.states import QUEUED

# The client's modes and ours; the client lower-cases modes, and so do we.
MODE_OF_PUBLIC = {MODES[mode].public_mode: mode for mode in SUBMISSION_MODES}
GPU = re.compile(r"[A-Za-z0-9_]{1,32}\Z")
ERROR_LENGTH_MAX = 1500
DESCRIPTION_LENGTH_MAX = 400
US_PER_S = 1e6
# JSON readers keep integers up to 2^53 - 1; 48 bits of a digest do not collide by chance.
_ID_BYTES = 6
STAGE_WORDS = {
    name: f"{'hidden ' if stage.is_hidden else ''}{stage.public_mode or name}"
    for name, stage in STAGES.items()
} | {"time": "benchmark"}
STATUSES: Mapping[str, Literal["no_agent", "paused"]] = {"no_agent": "no_agent", "paused": "paused"}


def leaderboard_id(slug: str) -> int:
    """Return the client's integer id of a leaderboard, derived from its slug.

    >>> leaderboard_id("matmul") == leaderboard_id("matmul") < 2**53
    True
    """
    return int.from_bytes(hashlib.sha256(slug.encode()).digest()[:_ID_BYTES], "big")


def seconds(time_us: float | None) -> float | None:
    """Return a score in seconds, None unless it is finite and above 0.

    >>> seconds(1500.0), seconds(0.0), seconds(float("nan"))
    (0.0015, None, None)
    """
    if time_us is None or not math.isfinite(time_us) or time_us <= 0:
        return None
    return time_us / US_PER_S


@overload
def instant(at: datetime) -> str: ...
@overload
def instant(at: datetime | None) -> str | None: ...
def instant(at: datetime | None) -> str | None:
    """An instant in UTC, as RFC 3339 with Z.

    >>> instant(datetime(2026, 1, 2, 3, tzinfo=UTC))
    '2026-01-02T03:00:00.000000Z'
    """
    if at is None:
        return None
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def terminal_text(text: str, length_max: int = ERROR_LENGTH_MAX) -> str:
    """Return text that is safe for a terminal: printable ASCII of limited length.

    The client cuts what it prints at a byte and fails on a split character.

    >>> terminal_text("a\\x1b[31m\\u00e9\\n")
    'a?[31m?'
    """
    cleaned = "".join(
        character if " " <= character <= "~" or character in "\n\t" else "?" for character in text
    ).strip()
    return cleaned if len(cleaned) <= length_max else f"{cleaned[: length_max - 3]}..."


class JobStatus(NamedTuple):
    """The client's job status, whether it is final, and details to display."""

    status: str
    is_done: bool
    error: str | None = None
    more: str = ""


def job_status(submission: FullSubmission) -> JobStatus:
    """Return the status of a submission; an ended one has its final status."""
    if not submission.is_over:
        # After a failed attempt it stays "running", although it waits for an agent again.
        is_pending = submission.state == QUEUED and submission.attempt == 0
        status = "pending" if is_pending else "running"
        return JobStatus(status, False, more=_progress_text(submission))
    status, error = _final_status(submission)
    if error is not None:
        error = terminal_text(error) or "no reason given"
    return JobStatus(status, True, error)


def _progress_text(submission: FullSubmission) -> str:
    """Return what the client prints after the status."""
    if submission.state == QUEUED:
        return _wait_text(submission.queue) if submission.queue else ""
    if submission.state == "ranking":
        return "deciding"
    progress = submission.progress
    stage = STAGE_WORDS.get(progress.stage, "") if progress else ""
    return f"{stage} {progress.done}/{progress.total}" if progress and stage else stage


def _wait_text(queue: Queue) -> str:
    if queue.state == "no_agent" or queue.reason:
        return terminal_text(queue.reason or "no agent is online", 300)
    ahead = "queued" if queue.ahead is None else f"{queue.ahead} ahead"
    return ahead if queue.eta_s is None else f"{ahead}, start in about {queue.eta_s:.0f} s"


def _final_status(submission: FullSubmission) -> tuple[str, str | None]:
    """Return the final status, and the reason unless it succeeded."""
    reason = _suffix(submission.reason)
    if submission.ranking is not None and submission.ranking.code == "disqualified":
        moderation = submission.moderation
        rule = (moderation.rule if moderation else None) or "a rule"
        appeal = f"appeal by POST /v1/submissions/{submission.number}/appeal"
        moderator_reason = _suffix(moderation.reason if moderation else None)
        return "hacked", f"disqualified under the rule {rule!r}{moderator_reason}; {appeal}"
    if submission.verdict == "timed_out":
        stage = STAGE_WORDS.get(submission.stage or "", "a stage")
        return "timed_out", f"the budget of {stage} is used up{reason}"
    if submission.outcome == "cancelled":
        return "failed", f"cancelled by {_canceller_name(submission)}{reason}"
    if submission.outcome == "infra_failed":
        message = "the platform failed, not your code: your quota was refunded, submit again"
        if submission.code == AGENTS_LOST:
            message = "your quota was refunded"
        return "failed", f"{message} ({submission.code}){reason}"
    if submission.outcome != "passed":
        verdict = submission.verdict or submission.outcome
        return "failed", submission.reason or f"ended {verdict} ({submission.code})"
    return _ranked_status(submission) if submission.mode == "ranked" else ("succeeded", None)


def _ranked_status(submission: FullSubmission) -> tuple[str, str | None]:
    """Return the status of a passed ranked run: it succeeded only if it is, or may be, ranked."""
    ranking = submission.ranking
    reason = _suffix((ranking.reason if ranking else None) or submission.reason)
    if ranking is not None and ranking.status == "held":
        return "failed", f"passed, but held for review{reason}"
    if submission.is_eligible:
        return "succeeded", None
    code = (ranking.code if ranking else None) or submission.code
    return "failed", f"passed, but not ranked ({code}){reason}"


def _canceller_name(submission: FullSubmission) -> str:
    actors = [
        event.actor for event in submission.timeline if event.type == "SubmissionCancelRequested"
    ]
    is_own = actors[-1:] == [f"account:{submission.participant_id}"]
    return "you" if is_own else "an operator"


def _suffix(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def job_response(submission: FullSubmission, *, is_long: bool = False) -> JobState:
    """Return the client's `job`; with `is_long`, an open status has details behind a colon."""
    job = job_status(submission)
    return {
        "status": f"{job.status}{_suffix(job.more)}" if is_long else job.status,
        "error": job.error,
        "last_heartbeat": None,
        "state": submission.state,
        "stage": submission.stage,
        "deadline": instant(submission.state_deadline_at or submission.deadline_at),
    }


def runner_queue(submission: FullSubmission) -> RunnerQueue | None:
    """Return the queue that a submission waits in, None once it has been assigned."""
    is_waiting = not submission.is_over and submission.state == QUEUED
    return queue_response(submission.queue) if is_waiting and submission.queue else None


def queue_response(queue: Queue) -> RunnerQueue:
    """Return a queue in the client's form."""
    eta = "" if queue.eta_s is None else f" (start in about {queue.eta_s:.0f} s)"
    return {
        "runner": f"pool{eta}",
        "gpu": queue.gpu,
        "queued_jobs": queue.ahead or 0,
        "running_jobs": queue.agents_busy,
        "available_runners": max(0, queue.agents_online - queue.agents_busy),
        "status": STATUSES.get(queue.state, "available"),
        "error": terminal_text(queue.reason or "") or None,
    }
