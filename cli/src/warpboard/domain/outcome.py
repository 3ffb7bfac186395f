"""How a command ends: its exit code and what it says of a verdict."""

from collections.abc import Iterable

from shared.telling.outcome import (
    LOG_LINES_MAX,
    RANKED,
    ending,
    first_failing,
    isolation,
    log_lines,
    noted,
    troubles,
)
from warpboard.domain.answers import Run, Submission
from warpboard.domain.units import seconds_text, time_text

__all__ = [
    "EXIT_CODES",
    "FAILED",
    "INFRASTRUCTURE",
    "INTERRUPTED",
    "LOG_LINES_MAX",
    "NOT_RANKED",
    "OK",
    "QUOTA",
    "RANKED",
    "REFUSED",
    "TERMINATED",
    "UNREAD",
    "ending",
    "exit_code",
    "first_failing",
    "isolation",
    "local_exit_code",
    "local_lines",
    "log_lines",
    "noted",
    "troubles",
    "worst",
]

OK = 0
FAILED = 1
REFUSED = 2
INFRASTRUCTURE = 3
QUOTA = 4
NOT_RANKED = 5
INTERRUPTED = 130
UNREAD = 141
TERMINATED = 143

EXIT_CODES = """Exit codes: 0 passed or done, 1 not passed or the answer is no (an audit that
is not clean), 2 refused or wrong usage, 3 infrastructure (the platform cannot be reached,
it failed, or time is over), 4 your quota is used up, 5 passed but not eligible for the
leaderboard (mode ranked), 130 interrupted, 141 nobody reads stdout any more, 143 stopped."""

_SEVERITY = (OK, NOT_RANKED, FAILED, QUOTA, REFUSED, INFRASTRUCTURE)


def worst(codes: Iterable[int]) -> int:
    """The exit code of several things done at once.

    >>> worst([0, 5, 1]), worst([])
    (1, 0)
    """
    return max(codes, key=_SEVERITY.index, default=OK)


def exit_code(submission: Submission) -> int:
    """What a submission's end means to a shell; one that is not over is no failure."""
    if not submission.is_over:
        return OK
    if submission.outcome == "passed":
        is_lost = submission.mode == "ranked" and not submission.is_eligible
        return NOT_RANKED if is_lost else OK
    return INFRASTRUCTURE if submission.outcome == "infra_failed" else FAILED


def local_exit_code(run: Run) -> int:
    """What the end of a run without a server means to a shell; no verdict is our failure."""
    if not run.verdict:
        return INFRASTRUCTURE
    return OK if run.verdict == "passed" else FAILED


def local_lines(name: str, mode: str, run: Run, score_us: float | None) -> list[str]:
    """The end of a run without a server, in lines."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    head = f"{name}: {run.verdict or 'no verdict'} ({mode}, isolation {run.level}{tier}){took}"
    lines = [head] if run.verdict == "passed" else [head, *troubles(run)]
    return [*lines, f"score {time_text(score_us)}"] if score_us is not None else lines
