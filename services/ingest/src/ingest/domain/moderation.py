"""What is decided about a submission beside its verdict: holds, disqualification, appeals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    AppealDecided,
    AppealFiled,
    Blob,
    Fact,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionReleased,
    SubmissionRestored,
    SubmissionWithdrawn,
)


@dataclass(frozen=True)
class Moderated:
    """A submission as its history, and then that of its moderation, tell it.

    A hold and a disqualification stand beside each other: each is lifted by itself.
    `appeal` is "" before any, `open`, or `decided`: one appeal for each decision.
    """

    is_held: bool = False
    is_disqualified: bool = False
    appeal: str = ""
    is_withdrawn: bool = False


@dataclass(frozen=True)
class Hold:
    """Keep a submission off its leaderboard until somebody looked."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Release:
    """Let a held submission be ranked."""

    reason: str


@dataclass(frozen=True)
class Disqualify:
    """Take a submission off its leaderboard."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Restore:
    """Let a disqualified submission be ranked again."""

    reason: str


@dataclass(frozen=True)
class Appeal:
    """Ask to look again at what was decided."""

    text: Blob


@dataclass(frozen=True)
class DecideAppeal:
    """Answer an appeal; an accepted one lifts what it is against."""

    is_accepted: bool
    reason: str


@dataclass(frozen=True)
class Withdraw:
    """Take a submission off its leaderboard for ever, as its owner wants it."""

    reason: str


Judgement = Hold | Release | Disqualify | Restore
ModerationCommand = Judgement | Appeal | DecideAppeal | Withdraw


def decide(command: ModerationCommand, state: Moderated) -> Sequence[Fact]:
    """What is decided. Errors: Refused for what is so already, or answers nothing."""
    match command:
        case Appeal(text):
            _check_appeal(state)
            return (AppealFiled(text=text),)
        case DecideAppeal(is_accepted, reason):
            _require(state.appeal == "open", "there is no open appeal for this submission")
            return (AppealDecided(is_accepted=is_accepted, reason=reason),)
        case Withdraw(reason):
            if state.is_held:
                what = "this submission is held: it can be withdrawn once that is decided"
                raise Refused("under_review", what)
            return () if state.is_withdrawn else (SubmissionWithdrawn(reason=reason),)
    return (_judged(command, state),)


def evolve(state: Moderated, fact: Fact) -> Moderated:
    """What a submission is after one more event, its own or its moderation's."""
    match fact:
        case SubmissionFinished() | SubmissionHeld():
            state = _held(state, fact)
        case SubmissionDisqualified():
            state = _afresh(replace(state, is_disqualified=True))
        case SubmissionReleased():
            state = replace(state, is_held=False)
        case SubmissionRestored():
            state = replace(state, is_disqualified=False)
        case AppealFiled():
            state = replace(state, appeal="open")
        case AppealDecided():
            state = _answered(state, fact.is_accepted)
        case SubmissionWithdrawn():
            state = replace(state, is_withdrawn=True)
    return state


moderation = Decider[ModerationCommand, Moderated, Fact](Moderated(), decide, evolve)


def _held(state: Moderated, fact: SubmissionFinished | SubmissionHeld) -> Moderated:
    if isinstance(fact, SubmissionHeld):
        return _afresh(replace(state, is_held=True))
    return replace(state, is_held=state.is_held or fact.is_held)


def _answered(state: Moderated, is_accepted: bool) -> Moderated:
    free = Moderated(is_withdrawn=state.is_withdrawn)
    return replace(free if is_accepted else state, appeal="decided")


def _afresh(state: Moderated) -> Moderated:
    """Against a new decision there is a new appeal; an open one still waits for its answer."""
    return state if state.appeal == "open" else replace(state, appeal="")


def _judged(command: Judgement, state: Moderated) -> Fact:
    match command:
        case Hold(rule, reason):
            _require(not state.is_disqualified, "this submission is disqualified: no need to hold")
            _require(not state.is_held, "this submission is held already")
            return SubmissionHeld(rule=rule, reason=reason)
        case Release(reason):
            _require(state.is_held, "this submission is not held")
            return SubmissionReleased(reason=reason)
        case Disqualify(rule, reason):
            _require(not state.is_disqualified, "this submission is disqualified already")
            return SubmissionDisqualified(rule=rule, reason=reason)
    _require(state.is_disqualified, "this submission is not disqualified")
    return SubmissionRestored(reason=command.reason)


def _check_appeal(state: Moderated) -> None:
    is_bad = state.is_held or state.is_disqualified
    _require(is_bad, "nothing was decided against this submission: it is not held or disqualified")
    _require(state.appeal != "open", "your appeal is filed already: it will be answered")
    _require(state.appeal != "decided", "your appeal was decided: there is no second one")


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Refused("wrong_state", otherwise)
