"""Moderation: holds, disqualifications and withdrawals of submissions, and all appeals."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ingest.accounts.rules import Account, accounts
from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    AccountBanned,
    AccountUnbanned,
    AppealDecided,
    AppealFiled,
    BanAppealDecided,
    BanAppealFiled,
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
class ModerationState:
    """The moderation state of a submission, folded from its history and its moderation's.

    A hold and a disqualification are independent; each is lifted by itself. `appeal` is "" before
    any appeal, `open` or `decided`: one appeal for each decision.
    """

    is_held: bool = False
    is_disqualified: bool = False
    appeal: str = ""
    is_withdrawn: bool = False


@dataclass(frozen=True)
class Hold:
    """Hold a submission off its leaderboard until somebody reviews it."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Release:
    """Release a held submission."""

    reason: str


@dataclass(frozen=True)
class Disqualify:
    """Take a submission off its leaderboard."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Restore:
    """Lift a disqualification."""

    reason: str


@dataclass(frozen=True)
class Appeal:
    """Appeal against a hold or a disqualification."""

    text: Blob


@dataclass(frozen=True)
class DecideAppeal:
    """Answer an appeal; accepting it lifts the hold and the disqualification."""

    is_accepted: bool
    reason: str


@dataclass(frozen=True)
class Withdraw:
    """Take a submission off its leaderboard for ever, for its owner."""

    reason: str


Judgement = Hold | Release | Disqualify | Restore
ModerationCommand = Judgement | Appeal | DecideAppeal | Withdraw


def decide(command: ModerationCommand, state: ModerationState) -> Sequence[Fact]:
    """Return the events of a command. Raises `Refused` if it changes nothing."""
    match command:
        case Appeal(text):
            _check_appeal(state)
            return (AppealFiled(text=text),)
        case DecideAppeal(is_accepted, reason):
            _require(state.appeal == "open", "there is no open appeal for this submission")
            return (AppealDecided(is_accepted=is_accepted, reason=reason),)
        case Withdraw(reason):
            if state.is_held:
                message = "this submission is held for review: you can withdraw it after the review"
                raise Refused("under_review", message)
            return () if state.is_withdrawn else (SubmissionWithdrawn(reason=reason),)
    return (_decide_judgement(command, state),)


def evolve(state: ModerationState, fact: Fact) -> ModerationState:
    """Return the state after one more event of the submission or its moderation."""
    match fact:
        case SubmissionFinished() | SubmissionHeld():
            state = _hold(state, fact)
        case SubmissionDisqualified():
            state = _reopen_appeal(replace(state, is_disqualified=True))
        case SubmissionReleased():
            state = replace(state, is_held=False)
        case SubmissionRestored():
            state = replace(state, is_disqualified=False)
        case AppealFiled():
            state = replace(state, appeal="open")
        case AppealDecided():
            state = _answer_appeal(state, fact.is_accepted)
        case SubmissionWithdrawn():
            state = replace(state, is_withdrawn=True)
    return state


moderation = Decider[ModerationCommand, ModerationState, Fact](ModerationState(), decide, evolve)


def _hold(state: ModerationState, fact: SubmissionFinished | SubmissionHeld) -> ModerationState:
    if isinstance(fact, SubmissionHeld):
        return _reopen_appeal(replace(state, is_held=True))
    return replace(state, is_held=state.is_held or fact.is_held)


def _answer_appeal(state: ModerationState, is_accepted: bool) -> ModerationState:
    lifted = ModerationState(is_withdrawn=state.is_withdrawn)
    return replace(lifted if is_accepted else state, appeal="decided")


def _reopen_appeal(state: ModerationState) -> ModerationState:
    """Allow a new appeal against a new decision; an open one still waits for its answer."""
    return state if state.appeal == "open" else replace(state, appeal="")


def _decide_judgement(command: Judgement, state: ModerationState) -> Fact:
    match command:
        case Hold(rule, reason):
            _require(
                not state.is_disqualified, "this submission is disqualified: it cannot be held"
            )
            _require(not state.is_held, "this submission is already held")
            return SubmissionHeld(rule=rule, reason=reason)
        case Release(reason):
            _require(state.is_held, "this submission is not held")
            return SubmissionReleased(reason=reason)
        case Disqualify(rule, reason):
            _require(not state.is_disqualified, "this submission is already disqualified")
            return SubmissionDisqualified(rule=rule, reason=reason)
    _require(state.is_disqualified, "this submission is not disqualified")
    return SubmissionRestored(reason=command.reason)


def _check_appeal(state: ModerationState) -> None:
    is_sanctioned = state.is_held or state.is_disqualified
    _require(
        is_sanctioned, "there is nothing to appeal: this submission is not held or disqualified"
    )
    _require(state.appeal != "open", "your appeal is already filed: wait for the answer")
    _require(state.appeal != "decided", "your appeal was decided: you cannot appeal again")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise Refused("wrong_state", message)


@dataclass(frozen=True)
class BanAppealState:
    """An account with its ban and appeal; `answer` is None while the appeal is open."""

    account: Account = field(default_factory=Account)
    filed: BanAppealFiled | None = None
    answer: BanAppealDecided | None = None


@dataclass(frozen=True)
class AppealBan:
    """Appeal against one's own ban."""

    text: Blob
    at: datetime


@dataclass(frozen=True)
class AnswerAppeal:
    """Answer an appeal against a ban; accepting it lifts the ban."""

    is_accepted: bool
    reason: str
    at: datetime


def decide_ban_appeal(command: AppealBan | AnswerAppeal, state: BanAppealState) -> Sequence[Fact]:
    """Return the appeal or its answer. Raises `Refused` for a second appeal or a missing one."""
    ban = state.account.ban_at(command.at)
    if isinstance(command, AppealBan):
        if ban is None:
            raise not_banned()
        _require(state.answer is None, "your appeal was decided: you cannot appeal again")
        _require(state.filed is None, "your appeal is already filed: wait for the answer")
        return (BanAppealFiled(text=command.text),)
    is_open = state.filed is not None and state.answer is None
    _require(is_open, "there is no open appeal against a ban of this participant")
    decision = BanAppealDecided(is_accepted=command.is_accepted, reason=command.reason)
    is_over = command.is_accepted and ban is not None
    return (decision, AccountUnbanned(reason=command.reason)) if is_over else (decision,)


def evolve_ban_appeal(state: BanAppealState, fact: Fact) -> BanAppealState:
    """Return the appeal state after one more event; a new ban starts over."""
    match fact:
        case AccountBanned():
            state = BanAppealState()
        case BanAppealFiled():
            state = replace(state, filed=fact, answer=None)
        case BanAppealDecided():
            state = replace(state, answer=fact)
    return replace(state, account=accounts.evolve(state.account, fact))


ban_appeals = Decider[AppealBan | AnswerAppeal, BanAppealState, Fact](
    BanAppealState(), decide_ban_appeal, evolve_ban_appeal
)


def not_banned() -> Refused:
    """Return the refusal for an appeal without a ban."""
    return Refused("wrong_state", "you are not banned: there is nothing to appeal")
