"""Accounts: who is banned, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.decider import Decider
from shared.errors import Refused
from shared.events import AccountBanned, AccountUnbanned, Fact


@dataclass(frozen=True)
class Account:
    """An account as its history tells it; `ban` is the last one, None if it was lifted."""

    ban: AccountBanned | None = None

    def ban_at(self, at: datetime) -> AccountBanned | None:
        """The ban in force at an instant."""
        ban = self.ban
        return ban if ban and (ban.until_at is None or at < ban.until_at) else None


@dataclass(frozen=True)
class Ban:
    """Keep a participant out, until then or for ever."""

    reason: str
    at: datetime
    until_at: datetime | None = None


@dataclass(frozen=True)
class Unban:
    """Let a participant in again."""

    reason: str
    at: datetime


def decide(command: Ban | Unban, state: Account) -> Sequence[Fact]:
    """The ban, or its end. Errors: Refused for a second ban and for the end of none."""
    ban = state.ban_at(command.at)
    if isinstance(command, Unban):
        if ban is None:
            raise Refused("wrong_state", "this participant is not banned")
        return (AccountUnbanned(reason=command.reason),)
    if ban is not None:
        raise Refused("wrong_state", f"this participant is banned already, {until(ban)}")
    if command.until_at is not None and command.until_at <= command.at:
        raise Refused("invalid_request", f"{command.until_at} is not in the future", "until_at")
    return (AccountBanned(reason=command.reason, until_at=command.until_at),)


def evolve(state: Account, fact: Fact) -> Account:
    """What an account is after one more event."""
    match fact:
        case AccountBanned():
            return Account(fact)
        case AccountUnbanned():
            return Account()
    return state


accounts = Decider[Ban | Unban, Account, Fact](Account(), decide, evolve)


def check_ban(state: Account, at: datetime) -> None:
    """Refuse what a banned participant asks for, with the reason and the end of the ban."""
    if ban := state.ban_at(at):
        wait_s = None if ban.until_at is None else (ban.until_at - at).total_seconds()
        raise Refused(
            "user_banned",
            f"you may not submit, {until(ban)}: {ban.reason}",
            retry_after_s=wait_s,
        )


def until(ban: AccountBanned) -> str:
    """How long a ban lasts, in words.

    >>> until(AccountBanned(reason="copied"))
    'for ever'
    """
    return "for ever" if ban.until_at is None else f"until {ban.until_at.isoformat()}"
