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


Judgement = Hold | Release | Disqualify | Restore
ModerationCommand = Judgement | Appeal | DecideAppeal


def decide(command: ModerationCommand, state: Moderated) -> Sequence[Fact]:
    """What is decided. Errors: Refused for what is so already, or answers nothing."""
    match command:
        case Appeal(text):
            _check_appeal(state)
            return (AppealFiled(text=text),)
        case DecideAppeal(is_accepted, reason):
            _require(state.appeal == "open", "there is no open appeal for this submission")
            return (AppealDecided(is_accepted=is_accepted, reason=reason),)
    return (_judged(command, state),)


def evolve(state: Moderated, fact: Fact) -> Moderated:
    """What a submission is after one more event, its own or its moderation's."""
    match fact:
        case SubmissionFinished():
            state = replace(state, is_held=state.is_held or fact.is_held)
        case SubmissionHeld():
            state = _afresh(replace(state, is_held=True))
        case SubmissionDisqualified():
            state = _afresh(replace(state, is_disqualified=True))
        case SubmissionReleased():
            state = replace(state, is_held=False)
        case SubmissionRestored():
            state = replace(state, is_disqualified=False)
        case AppealFiled():
            state = replace(state, appeal="open")
        case AppealDecided():
            state = replace(Moderated() if fact.is_accepted else state, appeal="decided")
    return state


moderation = Decider[ModerationCommand, Moderated, Fact](Moderated(), decide, evolve)


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
