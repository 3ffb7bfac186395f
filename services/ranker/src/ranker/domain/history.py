"""The public history of a submission: public event names and fields."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from shared import events
from shared.event_log import RecordedEvent
from shared.events import Fact, SubmissionFinished
from shared.wire import UnknownEvent

PublicEvent = dict[str, Any]
RANKED = "ranked"
# Public names of events that have another name in the log.
PUBLIC_NAMES = {
    "JobLeased": "JobAssigned",
    "RejudgeApplied": "SubmissionRejudged",
    # Only attempts to time a noisy run again have these two in a timeline.
    "RejudgeRequested": "RetimeRequested",
    "RejudgeDiscarded": "RetimeDiscarded",
}
# The fields of each event that its owner sees; events that are not listed are never shown.
OWNER_FIELDS: dict[str, tuple[str, ...]] = {
    "SubmissionReceived": ("problem", "gpu", "mode", "name", "deadline_at"),
    "SubmissionCancelRequested": ("reason",),
    "SubmissionFinished": ("outcome", "verdict", "code", "reason", "grade", "is_provisional"),
    "JobLeased": ("agent", "attempt", "lease_until_at"),
    "JobRequeued": ("reason",),
    "JobGivenUp": ("attempts", "reason"),
    "JobCancelled": ("reason",),
    "RunStarted": ("harness", "level", "tier", "key_commit"),
    "RunCompleted": ("verdict", "stage", "reason", "took_s", "stages"),
    "RunFailed": ("stage", "code", "reason", "stages"),
    "RunCancelled": ("reason",),
    "JobExpired": ("reason",),
    "SubmissionHeld": ("rule", "reason"),
    "SubmissionReleased": ("reason",),
    "SubmissionDisqualified": ("rule", "reason"),
    "SubmissionRestored": ("reason",),
    "SubmissionWithdrawn": ("reason",),
    "AppealFiled": (),
    "AppealDecided": ("is_accepted", "reason"),
    "RejudgeRequested": ("reason",),
    "RejudgeApplied": ("reason",),
    "RejudgeDiscarded": ("reason",),
}
# The fields that others see of a ranked submission; they do not see the other events.
PUBLIC_FIELDS: dict[str, tuple[str, ...]] = {
    "SubmissionReceived": ("problem", "gpu", "mode"),
    "SubmissionFinished": ("outcome", "verdict", "code", "grade", "is_provisional"),
    "JobLeased": ("attempt",),
    "RunStarted": ("level", "tier"),
    "RunCompleted": ("verdict", "took_s"),
    "SubmissionHeld": (),
    "SubmissionReleased": (),
    "SubmissionDisqualified": (),
    "SubmissionRestored": (),
    "SubmissionWithdrawn": (),
    "RejudgeRequested": (),
    "RejudgeApplied": (),
    "RejudgeDiscarded": (),
}


def make_public_history(
    history: Iterable[RecordedEvent], mode: str, *, is_own: bool
) -> list[PublicEvent]:
    """What a reader may see of a submission's events, each with its sequence."""
    fields = OWNER_FIELDS if is_own else PUBLIC_FIELDS
    public_events = (_make_public(event, mode, fields) for event in history)
    return [event for event in public_events if event is not None]


def _make_public(
    event: RecordedEvent, mode: str, fields: dict[str, tuple[str, ...]]
) -> PublicEvent | None:
    envelope = event.envelope
    if envelope.type not in fields:
        return None
    try:
        fact = event.fact
    except (msgspec.MsgspecError, UnknownEvent):
        return None  # Unreadable bytes from an agent, which the fold ignored.
    head = {
        "id": event.seq,
        "type": _find_name(fact, mode),
        "at": envelope.at,
        "version": envelope.v,
    }
    return (
        head | {name: getattr(fact, name) for name in fields[envelope.type]} | _extra_fields(fact)
    )


class SubmissionEnd(NamedTuple):
    """What the name of an end depends on: the mode, and the decision."""

    mode: str
    outcome: str | None
    is_held: bool
    is_eligible: bool


def public_name(kind: str, end: SubmissionEnd) -> str:
    """The public name of an event.

    >>> public_name("JobLeased", SubmissionEnd("test", "passed", False, True))
    'JobAssigned'
    """
    if kind != "SubmissionFinished":
        return PUBLIC_NAMES.get(kind, kind)
    if end.outcome == "cancelled":
        return "SubmissionCancelled"
    if end.is_held:
        return "SubmissionHeld"
    if end.mode != RANKED:
        return "SubmissionEnded"
    return "SubmissionRanked" if end.is_eligible else "SubmissionNotRanked"


def _find_name(fact: Fact, mode: str) -> str:
    end = SubmissionEnd(mode, None, False, False)
    if isinstance(fact, SubmissionFinished):
        end = SubmissionEnd(mode, fact.outcome, fact.is_held, fact.is_eligible)
    return public_name(type(fact).__name__, end)


def _extra_fields(fact: Fact) -> PublicEvent:
    match fact:
        case events.SubmissionReceived():
            return {"problem_version": fact.problem_number}
        case events.RunCompleted():
            failed = sum(case.verdict not in ("passed", "skipped") for case in fact.cases)
            return {"cases": len(fact.cases), "cases_failed": failed}
        case SubmissionFinished():
            return {"is_eligible": fact.is_eligible, "score_us": fact.score_us, "is_over": True}
        case _:
            return {}
