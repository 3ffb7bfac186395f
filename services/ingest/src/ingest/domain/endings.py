"""Ends that people want: a submission cancelled, a rejudge applied or discarded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    Fact,
    RejudgeApplied,
    RejudgeDiscarded,
    RejudgeItem,
    RejudgePreviewed,
    RejudgeRequested,
    SubmissionCancelRequested,
    SubmissionFinished,
    SubmissionReceived,
    SubmissionRejected,
)

REJUDGED_MAX = 400


@dataclass(frozen=True)
class Submission:
    """A submission as its history tells it; `account` is whose it is."""

    account: str = ""
    is_cancelled: bool = False
    is_over: bool = False


@dataclass(frozen=True)
class Cancel:
    """Let a submission end without a verdict."""

    reason: str


def decide(command: Cancel, state: Submission) -> Sequence[Fact]:
    """The wish, once. Errors: Refused `already_ended` if there is nothing left to cancel."""
    if state.is_over:
        raise Refused("already_ended", "this submission is over: there is nothing to cancel")
    return () if state.is_cancelled else (SubmissionCancelRequested(reason=command.reason),)


def evolve(state: Submission, fact: Fact) -> Submission:
    """What a submission is after one more event."""
    match fact:
        case SubmissionReceived():
            return replace(state, account=fact.account)
        case SubmissionCancelRequested():
            return replace(state, is_cancelled=True)
        case SubmissionFinished() | SubmissionRejected():
            return replace(state, is_over=True)
    return state


submissions = Decider[Cancel, Submission, Fact](Submission(), decide, evolve)


@dataclass(frozen=True)
class Rejudge:
    """A rejudge as its history tells it; `end` is how it ended, "" before."""

    is_known: bool = False
    is_previewed: bool = False
    end: str = ""


@dataclass(frozen=True)
class Apply:
    """Let the results of a rejudge count."""

    reason: str


@dataclass(frozen=True)
class Discard:
    """Let the results of a rejudge not count."""

    reason: str


def decide_end(command: Apply | Discard, state: Rejudge) -> Sequence[Fact]:
    """The end of a rejudge. Errors: Refused before there is a preview to apply, and after it."""
    if not state.is_known:
        raise Refused("unknown_rejudge", "there is no such rejudge", "id")
    if state.end:
        raise Refused("wrong_state", f"this rejudge was {state.end} already")
    if isinstance(command, Discard):
        return (RejudgeDiscarded(reason=command.reason),)
    if not state.is_previewed:
        raise Refused("wrong_state", "this rejudge has no preview yet: wait for all its runs")
    return (RejudgeApplied(reason=command.reason),)


def evolve_rejudge(state: Rejudge, fact: Fact) -> Rejudge:
    """What a rejudge is after one more event."""
    match fact:
        case RejudgeRequested():
            return replace(state, is_known=True)
        case RejudgePreviewed():
            return replace(state, is_previewed=True)
        case RejudgeApplied():
            return replace(state, end="applied")
        case RejudgeDiscarded():
            return replace(state, end="discarded")
    return state


rejudges = Decider[Apply | Discard, Rejudge, Fact](Rejudge(), decide_end, evolve_rejudge)


@dataclass(frozen=True)
class Selection:
    """Which submissions an operator wants to run again; versions may be left out."""

    problem: str
    select: str
    reason: str
    gpu: str | None = None
    from_version: int | None = None
    to_version: int | None = None


def versions(wanted: Selection, digests: Mapping[int, str]) -> tuple[int, int]:
    """From and to which version: to the newest, from the one before, unless said otherwise.

    Errors: Refused for a version that is not there, and for one and the same.
    """
    to = wanted.to_version if wanted.to_version is not None else max(digests)
    before = [number for number in digests if number < to]
    start = wanted.from_version if wanted.from_version is not None else max(before, default=to)
    for field, number in (("to_version", to), ("from_version", start)):
        if number not in digests:
            there = ", ".join(map(str, digests))
            what = f"{wanted.problem} has no version {number}: there are {there}"
            raise Refused("bad_rejudge", what, field)
    if start == to:
        what = f"from and to version {to}: a rejudge needs two versions, publish another first"
        raise Refused("bad_rejudge", what, "from_version")
    return start, to


def requested(
    wanted: Selection, digests: Mapping[int, str], items: Sequence[RejudgeItem]
) -> RejudgeRequested:
    """The fact that these are to run again. Errors: Refused if they are none, or too many."""
    start, to = versions(wanted, digests)
    if not items:
        what = f"no submission of version {start} is selected: there is nothing to run again"
        raise Refused("bad_rejudge", what, "select")
    if len(items) > REJUDGED_MAX:
        what = f"over {REJUDGED_MAX} submissions are selected: name a gpu, or select best"
        raise Refused("bad_rejudge", what, "select")
    return RejudgeRequested(
        problem=wanted.problem,
        from_number=start,
        to_number=to,
        to_digest=digests[to],
        select=wanted.select,
        reason=wanted.reason,
        items=list(items),
    )
