"""The events of a submission as readers are told them: public names, public fields."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from shared import events
from shared.event_log import Recorded
from shared.events import Fact, SubmissionFinished
from shared.wire import UnknownEvent

Told = dict[str, Any]
RANKED = "ranked"
# Under which name readers know an event that has another in the log.
NAMES = {
    "JobLeased": "JobAssigned",
    "RunStageFinished": "StageCompleted",
    "SubmissionRejected": "SubmissionEnded",
    "RejudgeApplied": "SubmissionRejudged",
}
# What of each event its owner is told, field by field; an event that is not here is told to nobody.
FIELDS: dict[str, tuple[str, ...]] = {
    "SubmissionReceived": ("problem", "gpu", "mode", "name", "deadline_at"),
    "SubmissionCancelRequested": ("reason",),
    "SubmissionRejected": ("code", "reason"),
    "SubmissionFinished": ("outcome", "verdict", "code", "reason", "grade", "is_provisional"),
    "JobQueued": ("gpu", "mode", "attempts_max"),
    "JobLeased": ("agent", "attempt", "lease_until_at"),
    "JobRequeued": ("reason",),
    "JobGivenUp": ("attempts", "reason"),
    "JobCancelled": ("reason",),
    "RunStarted": ("harness", "level", "tier", "key_commit"),
    "RunStageFinished": ("stage", "verdict", "took_s", "cases"),
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
    "RejudgeApplied": ("reason",),
}
# What others are told of a ranked submission; the rest are holes in the history that they see.
OTHERS: dict[str, tuple[str, ...]] = {
    "SubmissionReceived": ("problem", "gpu", "mode"),
    "SubmissionRejected": ("code",),
    "SubmissionFinished": ("outcome", "verdict", "code", "grade", "is_provisional"),
    "JobLeased": ("attempt",),
    "RunStarted": ("level", "tier"),
    "RunCompleted": ("verdict", "took_s"),
    "SubmissionHeld": (),
    "SubmissionReleased": (),
    "SubmissionDisqualified": (),
    "SubmissionRestored": (),
    "SubmissionWithdrawn": (),
    "RejudgeApplied": (),
}


def story(history: Iterable[Recorded], mode: str, *, is_own: bool) -> list[Told]:
    """What a reader is told of a submission's events, each at its place in the log."""
    told = (_told(event, mode, FIELDS if is_own else OTHERS) for event in history)
    return [one for one in told if one is not None]


def _told(event: Recorded, mode: str, fields: dict[str, tuple[str, ...]]) -> Told | None:
    said = event.envelope
    if said.type not in fields:
        return None
    try:
        fact = event.fact
    except (msgspec.MsgspecError, UnknownEvent):
        return None  # An agent's bytes that the fold took for noise.
    head = {"id": event.seq, "type": _name(fact, mode), "at": said.at, "version": said.v}
    return head | {name: getattr(fact, name) for name in fields[said.type]} | _more(fact)


class End(NamedTuple):
    """What an end is named by: the mode, and what was decided."""

    mode: str
    outcome: str | None
    is_held: bool
    is_eligible: bool


def public_name(kind: str, end: End) -> str:
    """The name that readers know an event by.

    >>> public_name("JobLeased", End("test", "passed", False, True))
    'JobAssigned'
    """
    if kind != "SubmissionFinished":
        return NAMES.get(kind, kind)
    if end.outcome == "cancelled":
        return "SubmissionCancelled"
    if end.is_held:
        return "SubmissionHeld"
    if end.mode != RANKED:
        return "SubmissionEnded"
    return "SubmissionRanked" if end.is_eligible else "SubmissionNotRanked"


def _name(fact: Fact, mode: str) -> str:
    end = End(mode, None, False, False)
    if isinstance(fact, SubmissionFinished):
        end = End(mode, fact.outcome, fact.is_held, fact.is_eligible)
    return public_name(type(fact).__name__, end)


def _more(fact: Fact) -> Told:
    """What is told of an event beside fields of its own."""
    make = _MORE.get(type(fact).__name__)
    return make(fact) if make else {}


def _received(fact: events.SubmissionReceived) -> Told:
    return {"problem_version": fact.problem_number}


def _completed(fact: events.RunCompleted) -> Told:
    failed = sum(case.verdict not in ("passed", "skipped") for case in fact.cases)
    return {"cases": len(fact.cases), "cases_failed": failed}


def _rejected(_: events.SubmissionRejected) -> Told:
    return {"outcome": "failed", "verdict": None, "eligible": False, "is_over": True}


def _finished(fact: SubmissionFinished) -> Told:
    score = None if fact.score_us is None else fact.score_us / 1e6
    return {"eligible": fact.is_eligible, "score": score, "is_over": True}


_MORE: dict[str, Callable[[Any], Told]] = {
    "SubmissionReceived": _received,
    "RunCompleted": _completed,
    "SubmissionRejected": _rejected,
    "SubmissionFinished": _finished,
}
