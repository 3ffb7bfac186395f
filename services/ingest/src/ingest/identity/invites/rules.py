"""Rules of invites."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from shared.errors import Refused
from shared.event_log import Decider
from shared.events import Fact, InviteIssued, InviteRedeemed, InviteRevoked


@dataclass(frozen=True)
class InviteState:
    """The state of an invite; `account` is the participant who redeemed it."""

    issued: InviteIssued | None = None
    account: str | None = None
    is_revoked: bool = False


class InviteCommand(NamedTuple):
    """Redeem or revoke an invite at this time."""

    event: InviteRedeemed | InviteRevoked
    at: datetime


def decide_invite(command: InviteCommand, state: InviteState) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` with the reason."""
    event, at = command
    if state.issued is None or state.is_revoked:
        raise invalid_invite()
    if isinstance(event, InviteRevoked):
        return (event,)
    if state.account == event.account:
        return ()
    if state.account is not None:
        raise Refused("invite_claimed", "somebody else has already used this invite", "code")
    ends_at = state.issued.expires_at
    if ends_at is not None and at >= ends_at:
        raise Refused("invite_expired", f"this invite ended at {ends_at.isoformat()}", "code")
    return (event,)


def evolve_invite(state: InviteState, fact: Fact) -> InviteState:
    """Return the invite after one more event."""
    match fact:
        case InviteIssued():
            return replace(state, issued=fact)
        case InviteRedeemed():
            return replace(state, account=fact.account)
        case InviteRevoked():
            return replace(state, is_revoked=True)
    return state


INVITE_DECIDER = Decider[InviteCommand, InviteState, Fact](
    InviteState(), decide_invite, evolve_invite
)


def invalid_invite() -> Refused:
    """Return the refusal for a participant who sends a code that does not exist."""
    message = "this is not a valid invite code: ask the person who gave it to you"
    return Refused("invalid_invite", message, "code")
