"""Which reports of an agent go to the log: only the next one of a run that it was given."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from shared import subjects
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, JobAssigned, RunDiscarded, RunStarted
from shared.subjects import derive_id
from shared.wire import (
    Envelope,
    UnknownEvent,
    decode,
    decode_fact,
    encode_envelope,
    forgery_reason,
    is_genuine,
)

# A report's own time is at most this long before its order, or in the future.
SKEW_S_MAX = 3600.0
ORDER, START, NOTE = JobAssigned.__name__, RunStarted.__name__, RunDiscarded.__name__


class ReportRefused(Exception):  # noqa: N818
    """The report does not go to the log, and never will."""


class NeverGiven(ReportRefused):
    """The agent was never given the run that it reports on."""


@dataclass
class RunRecord:
    """How far a run is: the sequence of its newest event, and which of its events exist.

    `assigned_at` is None if no order names the run; `note` is the sequence of its RunDiscarded.
    """

    version: int = 0
    assigned_at: datetime | None = None
    has_begun: bool = False
    has_ended: bool = False
    note: int = 0


def report_id(run: str, type_: str, version: int) -> str:
    """Return the id of a report that follows the event at `version`; a run has only one note."""
    return derive_id(run, type_ if type_ == NOTE else f"{type_}/{version}")


def read_run(history: Iterable[RecordedEvent]) -> RunRecord:
    """Return how far the run with this history is."""
    record = RunRecord()
    for event in history:
        record.version = event.seq
        kind = CATALOGUE.get(event.envelope.type)
        if kind is None or not is_genuine(event.envelope):
            continue
        name = kind.__name__
        if name == ORDER:
            record.assigned_at = record.assigned_at or event.envelope.at
        record.has_begun |= name == START
        record.has_ended |= kind.is_terminal
        record.note = event.seq if name == NOTE else record.note
    return record


def parse_report(agent: str, body: bytes) -> Envelope:
    """Decode a report as an event that this agent may write. Raises ReportRefused."""
    try:
        envelope = decode(body)
        _, _, run = envelope.aggregate.partition(f"report.{agent}.")
        if envelope.aggregate != subjects.report(agent, run):
            raise ReportRefused(f"{envelope.aggregate} is not a report of agent {agent}")
        if encode_envelope(envelope) != body:
            raise ReportRefused("it is not encoded as events are")
        decode_fact(envelope)
    except (ValueError, RecursionError, UnknownEvent) as error:
        raise ReportRefused(f"it is not an event: {error}") from error
    if reason := forgery_reason(envelope):
        raise ReportRefused(reason)
    return envelope


def check_report(run: RunRecord, report: Envelope, expected: int | None, now: datetime) -> None:
    """Check that a report is the next event of its run. Raises ReportRefused.

    A report on an older version than the run's is not checked: the log refuses it, or has it.
    """
    if run.assigned_at is None:
        raise NeverGiven(f"{report.aggregate} was never given to this agent")
    if report.id != report_id(subjects.last_token(report.aggregate), report.type, expected or 0):
        raise ReportRefused(f"{report.type} on {report.aggregate} has another id than it must have")
    _check_time(run.assigned_at, report, now)
    if report.type == NOTE:
        if expected is not None or run.note:
            raise ReportRefused(f"{report.aggregate} may have one note, which expects no version")
        return
    if expected is None or expected > run.version:
        raise ReportRefused(
            f"{report.aggregate} is at {run.version}, and does not go on at {expected}"
        )
    is_late = run.has_ended or (report.type == START and run.has_begun)
    if expected == run.version and is_late:
        raise ReportRefused(
            f"{report.aggregate} is over, or began before: {report.type} is not next"
        )


def _check_time(assigned_at: datetime, report: Envelope, now: datetime) -> None:
    skew = timedelta(seconds=SKEW_S_MAX)
    if not assigned_at - skew <= report.at <= now + skew:
        raise ReportRefused(
            f"{report.aggregate} is of {report.at:%Y-%m-%d %H:%M}: set the agent's clock"
        )


class ReportRequest(msgspec.Struct, frozen=True):
    """Append this event to my run, after the event at `expected`; None for a note."""

    event: msgspec.Raw
    expected: int | None = None


class ReportResponse(msgspec.Struct, frozen=True):
    """The event is in the log."""

    seq: int
