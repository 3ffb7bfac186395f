"""Rules of checks: how many an author may have open, how long they wait, and how they end."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import structs

from shared import events
from shared.api.problems import CheckFinding, ProblemCheck
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.problems.report import CheckReport
from shared.wire import is_genuine

OPEN_MAX = 2
# How long it waits for an agent, and how long all of its attempts may take together.
WAIT_S_MAX = 1800.0
RUN_S_MAX = 1800.0
# The scheduler ends a check shortly after its deadline.
ENDED_AFTER_S = 600.0
# For how long the same files need no other check.
KEPT_S = 24 * 3600.0


@dataclass
class CheckJob:
    """The job of a check: its newest run, and why it ended without a verdict."""

    is_queued: bool = True
    is_over: bool = False
    agent: str = ""
    run: str = ""
    reason: str = ""


def deadline(at: datetime) -> datetime:
    """Return when a check that is requested now ends without a result."""
    return at + timedelta(seconds=WAIT_S_MAX + RUN_S_MAX)


def check_open(open_count: int) -> None:
    """Refuse one more check of an author who has too many. Raises `Refused`."""
    if open_count >= OPEN_MAX:
        message = f"you have {open_count} checks that are not over: wait until one ends"
        raise Refused("too_many_open", message)


def fold_job(history: Iterable[RecordedEvent]) -> CheckJob:
    """Return the job of a check from its own history."""
    job = CheckJob()
    for event in history:
        fact = event.fact
        if not is_genuine(event.envelope):
            continue
        if isinstance(fact, events.JobLeased):
            job.is_queued, job.agent, job.run = False, fact.agent, fact.run
        elif isinstance(fact, events.JobRequeued):
            job.is_queued = True
        elif isinstance(fact, events.JobFinished):
            job.is_over = True
        elif isinstance(fact, events.JobGivenUp | events.JobCancelled):
            job.is_over, job.reason = True, fact.reason
    return job


def sign_key(history: Iterable[RecordedEvent]) -> str | None:
    """Return the key of an agent from its history; None if it was never enrolled, or revoked."""
    key: str | None = None
    for event in history:
        if not is_genuine(event.envelope):
            continue
        if isinstance(event.fact, events.AgentEnrolled):
            key = event.fact.sign_key
        elif isinstance(event.fact, events.AgentRevoked):
            key = None
    return key


def with_report(check: ProblemCheck, report: CheckReport) -> ProblemCheck:
    """Return a check that ended with a report."""
    findings = [
        CheckFinding(code=it.code, level=it.level, where=it.where, text=it.text)
        for it in report.findings
    ]
    errors = sum(it.level == "error" for it in report.findings)
    if report.is_clean:
        state, text = "clean", f"checked on {check.gpu}: {check.slug} can be published"
    else:
        count = "1 error" if errors == 1 else f"{errors} errors"
        state, text = "refused", f"the check found {count}: fix the file and send it again"
    return structs.replace(
        check, state=state, text=text, findings=findings, tested_gpus=report.tested_gpus
    )


def waiting_text(gpu: str, why: str | None, until: datetime) -> str:
    """Say what a check waits for, how long, and what to do."""
    if why is None:
        return f"waiting for an agent of {gpu}"
    return (
        f"waiting: {why}. The check waits until {until:%Y-%m-%d %H:%M} UTC; start an agent of "
        f"{gpu}, or send the file again with a GPU type that has one"
    )
