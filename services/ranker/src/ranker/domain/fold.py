"""Folds a batch of events into the rows that it changes, in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ranker.domain import changes, projection, rejudges
from ranker.domain.changes import ChangeRule
from ranker.domain.projection import Step, StepRule
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
_STEP_RULES: tuple[StepRule[Any], ...] = projection.RULES
CHANGES: dict[type[Fact], Callable[[Rows, DecodedEvent, Any], None]] = {
    rule.kind: rule.change for rule in _CHANGE_RULES
}
STEPS: dict[type[Fact], Callable[[RecordedEvent, Any], list[Step]]] = {
    rule.kind: rule.make_steps for rule in _STEP_RULES
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


def find_required_rows(batch: Iterable[DecodedEvent]) -> RequiredRows:
    """The rows that must be loaded before a batch can be folded."""
    required, created = RequiredRows(), RequiredRows()
    for event in batch:
        gather = _GATHER.get(event.fact.aggregate)
        if gather is not None:
            gather(required, created, event)
    required.submissions -= created.submissions
    required.jobs -= created.jobs
    required.runs -= created.runs
    return required


def _require_submission(required: RequiredRows, created: RequiredRows, event: DecodedEvent) -> None:
    if isinstance(event.fact, events.SubmissionReceived):
        created.submissions.add(event.id)
        if event.fact.is_queued:
            created.jobs.add(submission_job_id(event.id))
    else:
        required.submissions.add(event.id)


def _require_job(required: RequiredRows, created: RequiredRows, event: DecodedEvent) -> None:
    if isinstance(event.fact, events.JobQueued):
        created.jobs.add(event.id)
        required.submissions.add(event.fact.submission)
        if event.fact.rejudge:
            required.rejudges.add(event.fact.rejudge)
    else:
        required.jobs.add(event.id)


def _require_run(required: RequiredRows, created: RequiredRows, event: DecodedEvent) -> None:
    if isinstance(event.fact, events.JobAssigned):
        created.runs.add(event.id)
        required.jobs.add(event.fact.job)
    else:
        required.runs.add(event.id)


def _require_moderated(required: RequiredRows, _created: RequiredRows, event: DecodedEvent) -> None:
    required.submissions.add(event.id)


def _require_rejudge(required: RequiredRows, _created: RequiredRows, event: DecodedEvent) -> None:
    required.rejudges.add(event.id)
    if isinstance(event.fact, events.RejudgeRequested):
        required.submissions.update(item.submission for item in event.fact.items)
    if isinstance(event.fact, events.RejudgeApplied):
        required.applied.add(event.id)


_GATHER: dict[str, Callable[[RequiredRows, RequiredRows, DecodedEvent], None]] = {
    "submission": _require_submission,
    "job": _require_job,
    "run": _require_run,
    "report": _require_run,
    "moderation": _require_moderated,
    "rejudge": _require_rejudge,
}


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
