"""Moderation: holds, disqualifications and withdrawals of submissions, and all appeals."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from ingest.identity.accounts.rules import ACCOUNT_DECIDER, Account
from shared import events
from shared.errors import Refused
from shared.event_log import Decider

APPEAL_OPEN = "your appeal is already filed: wait for the answer"
APPEAL_DECIDED = "your appeal was decided: you cannot appeal again"


@dataclass(frozen=True)
class ModerationState:
    """The moderation state of a submission, folded from its history and its moderation's.

    A hold and a disqualification are independent; each is lifted by itself. `appeal` is "" before
    any appeal, `open` or `decided`: one appeal for each decision. `is_held_by_staff`: by a
    moderator, not by a rule of the platform or the author of the problem.
    """

    is_held: bool = False
    is_held_by_staff: bool = False
    is_disqualified: bool = False
    appeal: str = ""
    is_withdrawn: bool = False


Judgement = (
    events.SubmissionHeld
    | events.SubmissionReleased
    | events.SubmissionDisqualified
    | events.SubmissionRestored
)


class AuthorRelease(NamedTuple):
    """The author of a problem ends a hold of a submission to it."""

    reason: str


ModerationCommand = (
    Judgement
    | AuthorRelease
    | events.AppealFiled
    | events.AppealDecided
    | events.SubmissionWithdrawn
)


def decide(command: ModerationCommand, state: ModerationState) -> Sequence[events.Fact]:
    """Return the event of a command. Raises `Refused` if it changes nothing."""
    match command:
        case events.AppealFiled():
            is_sanctioned = state.is_held or state.is_disqualified
            message = "there is nothing to appeal: this submission is not held or disqualified"
            _require(is_sanctioned, message)
            _require(state.appeal != "open", APPEAL_OPEN)
            _require(state.appeal != "decided", APPEAL_DECIDED)
        case events.AppealDecided():
            _require(state.appeal == "open", "there is no open appeal for this submission")
        case events.SubmissionWithdrawn():
            if state.is_held:
                message = "this submission is held for review: you can withdraw it after the review"
                raise Refused("under_review", message)
            return () if state.is_withdrawn else (command,)
        case AuthorRelease(reason=reason):
            if state.is_held_by_staff:
                message = "a moderator holds this submission: ask a moderator to release it"
                raise Refused("scope_missing", message)
            return decide(events.SubmissionReleased(reason=reason), state)
        case _:
            _check_judgement(command, state)
    return (command,)


def evolve(state: ModerationState, fact: events.Fact) -> ModerationState:
    """Return the state after one more event of the submission or its moderation."""
    match fact:
        case events.SubmissionFinished(is_held=True):
            state = replace(state, is_held=True)
        case events.SubmissionHeld():
            held = replace(state, is_held=True, is_held_by_staff=not fact.is_by_author)
            state = _reopen_appeal(held)
        case events.SubmissionDisqualified():
            state = _reopen_appeal(replace(state, is_disqualified=True))
        case events.SubmissionReleased():
            state = replace(state, is_held=False, is_held_by_staff=False)
        case events.SubmissionRestored():
            state = replace(state, is_disqualified=False)
        case events.AppealFiled() | events.AppealDecided():
            state = _evolve_appeal(state, fact)
        case events.SubmissionWithdrawn():
            state = replace(state, is_withdrawn=True)
    return state


MODERATION_DECIDER = Decider[ModerationCommand, ModerationState, events.Fact](
    ModerationState(), decide, evolve
)


def _evolve_appeal(
    state: ModerationState, fact: events.AppealFiled | events.AppealDecided
) -> ModerationState:
    if isinstance(fact, events.AppealFiled):
        return replace(state, appeal="open")
    lifted = ModerationState(is_withdrawn=state.is_withdrawn)
    return replace(lifted if fact.is_accepted else state, appeal="decided")


def _reopen_appeal(state: ModerationState) -> ModerationState:
    """Allow a new appeal against a new decision; an open one still waits for its answer."""
    return state if state.appeal == "open" else replace(state, appeal="")


def _check_judgement(command: Judgement, state: ModerationState) -> None:
    match command:
        case events.SubmissionHeld():
            message = "this submission is disqualified: it cannot be held"
            _require(not state.is_disqualified, message)
            _require(not state.is_held, "this submission is already held")
        case events.SubmissionReleased():
            _require(state.is_held, "this submission is not held")
        case events.SubmissionDisqualified():
            _require(not state.is_disqualified, "this submission is already disqualified")
        case events.SubmissionRestored():
            _require(state.is_disqualified, "this submission is not disqualified")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise Refused("wrong_state", message)


@dataclass(frozen=True)
class BanAppealState:
    """An account with its ban and appeal; `answer` is None while the appeal is open."""

    account: Account = field(default_factory=Account)
    filed: events.BanAppealFiled | None = None
    answer: events.BanAppealDecided | None = None


class BanAppealCommand(NamedTuple):
    """An appeal against a ban, or its answer, at this time; accepting it lifts the ban."""

    event: events.BanAppealFiled | events.BanAppealDecided
    at: datetime


def decide_ban_appeal(command: BanAppealCommand, state: BanAppealState) -> Sequence[events.Fact]:
    """Return the appeal or its answer. Raises `Refused` for a second appeal or a missing one."""
    event, ban = command.event, state.account.ban_at(command.at)
    if isinstance(event, events.BanAppealFiled):
        if ban is None:
            raise not_banned()
        _require(state.answer is None, APPEAL_DECIDED)
        _require(state.filed is None, APPEAL_OPEN)
        return (event,)
    is_open = state.filed is not None and state.answer is None
    _require(is_open, "there is no open appeal against a ban of this participant")
    is_lifted = event.is_accepted and ban is not None
    return (event, events.AccountUnbanned(reason=event.reason)) if is_lifted else (event,)


def evolve_ban_appeal(state: BanAppealState, fact: events.Fact) -> BanAppealState:
    """Return the appeal state after one more event; a new ban starts over."""
    match fact:
        case events.AccountBanned():
            state = BanAppealState()
        case events.BanAppealFiled():
            state = replace(state, filed=fact, answer=None)
        case events.BanAppealDecided():
            state = replace(state, answer=fact)
    return replace(state, account=ACCOUNT_DECIDER.evolve(state.account, fact))


BAN_APPEAL_DECIDER = Decider[BanAppealCommand, BanAppealState, events.Fact](
    BanAppealState(), decide_ban_appeal, evolve_ban_appeal
)


def not_banned() -> Refused:
    """Return the refusal for an appeal without a ban."""
    return Refused("wrong_state", "you are not banned: there is nothing to appeal")
