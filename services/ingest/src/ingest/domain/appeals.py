"""Appeals against bans: one for each ban, by who is banned, and its answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ingest.domain.accounts import Account, accounts
from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    AccountBanned,
    AccountUnbanned,
    BanAppealDecided,
    BanAppealFiled,
    Blob,
    Fact,
)


@dataclass(frozen=True)
class Appealed:
    """An account's ban, and what was said against it; `answer` is None while nobody decided."""

    account: Account = field(default_factory=Account)
    filed: BanAppealFiled | None = None
    answer: BanAppealDecided | None = None


@dataclass(frozen=True)
class AppealBan:
    """Ask to look again at one's ban."""

    text: Blob
    at: datetime


@dataclass(frozen=True)
class AnswerAppeal:
    """Answer an appeal against a ban; an accepted one ends it."""

    is_accepted: bool
    reason: str
    at: datetime


def decide(command: AppealBan | AnswerAppeal, state: Appealed) -> Sequence[Fact]:
    """The appeal, or its answer. Errors: Refused for what answers nothing, and a second one."""
    ban = state.account.ban_at(command.at)
    if isinstance(command, AppealBan):
        if ban is None:
            raise not_banned()
        _require(state.answer is None, "your appeal was decided: there is no second one")
        _require(state.filed is None, "your appeal is filed already: it will be answered")
        return (BanAppealFiled(text=command.text),)
    is_open = state.filed is not None and state.answer is None
    _require(is_open, "there is no open appeal against a ban of this participant")
    said = BanAppealDecided(is_accepted=command.is_accepted, reason=command.reason)
    is_over = command.is_accepted and ban is not None
    return (said, AccountUnbanned(reason=command.reason)) if is_over else (said,)


def evolve(state: Appealed, fact: Fact) -> Appealed:
    """What was said against a ban after one more event; against a new ban, nothing yet."""
    match fact:
        case AccountBanned():
            state = Appealed()
        case BanAppealFiled():
            state = replace(state, filed=fact, answer=None)
        case BanAppealDecided():
            state = replace(state, answer=fact)
    return replace(state, account=accounts.evolve(state.account, fact))


appeals = Decider[AppealBan | AnswerAppeal, Appealed, Fact](Appealed(), decide, evolve)


def not_banned() -> Refused:
    """What is said to who appeals against no ban."""
    return Refused("wrong_state", "you are not banned: there is nothing to appeal against")


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Refused("wrong_state", otherwise)
