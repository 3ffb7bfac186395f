"""Invites: one code, for one participant, to closed leaderboards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared.decider import Decider
from shared.errors import Refused
from shared.events import Fact, InviteIssued, InviteRedeemed, InviteRevoked


@dataclass(frozen=True)
class Invite:
    """An invite as its history tells it; `account` is who redeemed it."""

    issued: InviteIssued | None = None
    account: str | None = None
    is_revoked: bool = False


@dataclass(frozen=True)
class Redeem:
    """Become a member by a code."""

    account: str
    at: datetime


@dataclass(frozen=True)
class Revoke:
    """Let a code make nobody a member."""

    reason: str


def decide(command: Redeem | Revoke, state: Invite) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused, saying why not."""
    if state.issued is None or state.is_revoked:
        raise invalid()
    if isinstance(command, Revoke):
        return (InviteRevoked(reason=command.reason),)
    if state.account == command.account:
        return ()
    if state.account is not None:
        raise Refused("invite_claimed", "somebody else used this invite already", "code")
    ends_at = state.issued.expires_at
    if ends_at is not None and command.at >= ends_at:
        raise Refused("invite_expired", f"this invite was good until {ends_at.isoformat()}", "code")
    return (InviteRedeemed(account=command.account),)


def evolve(state: Invite, fact: Fact) -> Invite:
    """What an invite is after one more event."""
    match fact:
        case InviteIssued():
            return replace(state, issued=fact)
        case InviteRedeemed():
            return replace(state, account=fact.account)
        case InviteRevoked():
            return replace(state, is_revoked=True)
    return state


invites = Decider[Redeem | Revoke, Invite, Fact](Invite(), decide, evolve)


def unknown() -> Refused:
    """What is said to who manages invites, of a code that is none."""
    return Refused("unknown_invite", "there is no such invite, or it is revoked", "code")


def invalid() -> Refused:
    """What is said of a code that is none."""
    return Refused("invalid_invite", "this is no invite: ask who gave you the code", "code")
