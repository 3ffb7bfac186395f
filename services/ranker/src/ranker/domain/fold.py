"""Folds a batch of events into the rows that it changes, in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ranker.domain import changes, projection, rejudges
from ranker.domain.changes import ChangeRule
from ranker.domain.projection import Step
from ranker.domain.rows import DecodedEvent, RequiredRows, Rows
from shared import events
from shared.event_log import RecordedEvent
from shared.events import Fact
from shared.ids import submission_job_id
from shared.subjects import last_token
from shared.wire import UNREADABLE, is_genuine, is_written_by_agent

NUL = b"\\u0000"
# Events without rows here. Every class is named here or has a rule: tests/ranker/test_fold.py.
IGNORED: frozenset[type[Fact]] = frozenset(
    (
        events.AccountOpened,
        events.IdentityLinked,
        events.IdentityUnlinked,
        events.TokenIssued,
        events.TokenRevoked,
        events.RoleGranted,
        events.RoleRevoked,
        events.PreferenceSet,
        events.InviteIssued,
        events.InviteRedeemed,
        events.InviteRevoked,
        events.WebhookAdded,
        events.WebhookRemoved,
        events.CanaryJudged,
        events.CanaryChosen,
        events.CanaryRemoved,
        events.IntakePaused,
        events.IntakeResumed,
        events.AuditSealed,
        events.ProjectionSwitched,
        events.EventSkipped,
        events.DeadLetterRedriven,
        events.LogImported,
        events.AccountTablesAdopted,
        events.OperatorActed,
        events.BanAppealFiled,
        events.BanAppealDecided,
        events.QuotaTaken,
        events.QuotaReturned,
        events.QuotaLimitSet,
        events.RunReleased,
    )
)
_CHANGE_RULES: tuple[ChangeRule[Any], ...] = (*changes.RULES, *rejudges.RULES)
CHANGES: dict[type[Fact], Callable[[Rows, DecodedEvent, Any], None]] = {
    rule.kind: rule.change for rule in _CHANGE_RULES
}
STEPS: dict[type[Fact], Callable[[RecordedEvent, Any], list[Step]]] = {
    rule.kind: rule.make_steps for rule in projection.RULES
}


def decode_event(event: RecordedEvent) -> DecodedEvent:
    """Decode an event and drop NUL characters. Raises UnknownEvent or msgspec errors for bad data.

    An agent's unreadable event becomes an empty fact, so that the checkpoint moves past it.
    """
    try:
        fact = event.fact
    except msgspec.MsgspecError:
        if not is_written_by_agent(event.envelope):
            raise
        envelope = msgspec.structs.replace(event.envelope, type=UNREADABLE)
        return DecodedEvent(event._replace(envelope=envelope), Fact(), last_token(envelope.agg))
    if NUL in event.body:
        fact = msgspec.convert(_strip_nul(msgspec.to_builtins(fact)), type(fact))
    return DecodedEvent(event, fact, last_token(event.envelope.agg))


def _strip_nul(value: Any) -> Any:
    """The same value without NUL characters, which Postgres cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_strip_nul(key): _strip_nul(item) for key, item in value.items()}
    return [_strip_nul(item) for item in value] if isinstance(value, list | tuple) else value


def find_required_rows(  # noqa: C901  (one case for each kind of history)
    batch: Iterable[DecodedEvent],
) -> RequiredRows:
    """The rows that must be loaded before a batch can be folded."""
    required, created = RequiredRows(), RequiredRows()
    for event in batch:
        match event.fact.aggregate, event.fact:
            case "submission", events.SubmissionReceived() as fact:
                created.submissions.add(event.id)
                if fact.is_queued:
                    created.jobs.add(submission_job_id(event.id))
            case "submission" | "moderation", _:
                required.submissions.add(event.id)
            case "job", events.JobQueued() as fact:
                created.jobs.add(event.id)
                required.submissions.add(fact.submission)
                if fact.rejudge:
                    required.rejudges.add(fact.rejudge)
            case "job", _:
                required.jobs.add(event.id)
            case "run" | "report", events.JobAssigned() as fact:
                created.runs.add(event.id)
                required.jobs.add(fact.job)
            case "run" | "report", _:
                required.runs.add(event.id)
            case "rejudge", fact:
                required.rejudges.add(event.id)
                if isinstance(fact, events.RejudgeRequested):
                    required.submissions.update(item.submission for item in fact.items)
                if isinstance(fact, events.RejudgeApplied):
                    required.applied.add(event.id)
    required.submissions -= created.submissions
    required.jobs -= created.jobs
    required.runs -= created.runs
    return required


def fold(rows: Rows, batch: Iterable[DecodedEvent]) -> Rows:
    """The rows after a batch; events about rows that do not exist, or forged ones, are ignored."""
    for decoded in batch:
        event, fact = decoded.event, decoded.fact
        if not is_genuine(event.envelope):
            continue
        kind = type(fact)
        change = CHANGES.get(kind)
        if change is not None:
            change(rows, decoded, fact)
        make_steps = STEPS.get(kind)
        if make_steps is not None:
            rows.steps += make_steps(event, fact)
    return rows
