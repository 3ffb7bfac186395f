"""Accounts: who is banned, and until when; which roles, tokens and identities they have."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from ingest.domain import consents
from ingest.domain.callers import ALLOWED, STAFF_SCOPES, allowed
from ingest.domain.consents import Consents
from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    SCOPES,
    AccountBanned,
    AccountOpened,
    AccountUnbanned,
    ConsentGiven,
    ConsentWithdrawn,
    Fact,
    IdentityLinked,
    IdentityUnlinked,
    RoleGranted,
    RoleRevoked,
    TokenIssued,
    TokenRevoked,
)

ACTOR = "account:"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
TOKENS_MAX = 100
IDENTITIES_MAX = 20
Held = TypeVar("Held")
# A browser's login makes room for itself, so that who has too many tokens can come and revoke some.
WEB = "web"
STAFF_ROLES = frozenset({"moderator", "admin"})
GRANTABLE = tuple(role for role in ALLOWED if role != "participant")


@dataclass(frozen=True)
class Account:
    """An account as its history tells it; `ban` is the last one, None if it was lifted.

    `tokens` are those that are not revoked, by id; `identities` has the provider of each. What was
    accepted of problems is in `consents`.
    """

    ban: AccountBanned | None = None
    is_opened: bool = False
    roles: frozenset[str] = frozenset()
    tokens: Mapping[str, TokenIssued] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    consents: Consents = field(default_factory=dict)

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


@dataclass(frozen=True)
class Open:
    """Have an account, whichever way its participant came."""

    via: str


@dataclass(frozen=True)
class Link:
    """Let somebody known elsewhere be this participant."""

    identity: str
    provider: str


@dataclass(frozen=True)
class Unlink:
    """Let an identity be this participant's no longer."""

    identity: str
    reason: str


@dataclass(frozen=True)
class Issue:
    """Let a secret act for a participant."""

    fact: TokenIssued
    at: datetime


@dataclass(frozen=True)
class Revoke:
    """Let a token act for nobody any more."""

    token: str
    reason: str


@dataclass(frozen=True)
class Grant:
    """Let a participant do what a role allows."""

    role: str
    reason: str


@dataclass(frozen=True)
class TakeRole:
    """Let a participant no longer do what a role allows."""

    role: str
    reason: str


AccountCommand = Ban | Unban | Open | Link | Unlink | Issue | Revoke | Grant | TakeRole


def decide(command: AccountCommand, state: Account) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused."""
    match command:
        case Ban() | Unban():
            return _decide_ban(command, state)
        case Open(via):
            return () if state.is_opened else (AccountOpened(via=via),)
        case Link() | Unlink():
            return _decide_identity(command, state)
        case Issue(fact, at):
            _check_token(fact, at, state)
            return (fact,)
        case Revoke(token, reason):
            if token not in state.tokens:
                raise Refused("unknown_token", "there is no such token, or it is revoked", "id")
            return (TokenRevoked(token=token, reason=reason),)
    return _decide_role(command, state)


def evolve(state: Account, fact: Fact) -> Account:
    """What an account is after one more event."""
    match fact:
        case AccountBanned():
            return replace(state, ban=fact)
        case AccountUnbanned():
            return replace(state, ban=None)
        case AccountOpened():
            return replace(state, is_opened=True)
        case RoleGranted():
            return replace(state, roles=state.roles | {fact.role})
        case RoleRevoked():
            return replace(state, roles=state.roles - {fact.role})
    return _evolve_held(state, fact)


def _evolve_held(state: Account, fact: Fact) -> Account:
    match fact:
        case IdentityLinked():
            return replace(state, identities={**state.identities, fact.identity: fact.provider})
        case IdentityUnlinked():
            return replace(state, identities=_without(state.identities, fact.identity))
        case TokenIssued():
            return replace(state, tokens={**state.tokens, fact.token: fact})
        case TokenRevoked():
            return replace(state, tokens=_without(state.tokens, fact.token))
        case ConsentGiven() | ConsentWithdrawn():
            return replace(state, consents=consents.evolve(state.consents, fact))
    return state


accounts = Decider[AccountCommand, Account, Fact](Account(), decide, evolve)


def _without(table: Mapping[str, Held], key: str) -> dict[str, Held]:
    return {one: value for one, value in table.items() if one != key}


def _decide_ban(command: Ban | Unban, state: Account) -> Sequence[Fact]:
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


def _decide_identity(command: Link | Unlink, state: Account) -> Sequence[Fact]:
    is_linked = command.identity in state.identities
    if isinstance(command, Unlink):
        if not is_linked:
            raise Refused("unknown_identity", "there is no such identity", "identity")
        return (IdentityUnlinked(identity=command.identity, reason=command.reason),)
    if is_linked:
        return ()
    if len(state.identities) >= IDENTITIES_MAX:
        what = f"a participant has at most {IDENTITIES_MAX} identities: unlink one first"
        raise Refused("invalid_request", what, "provider")
    return (IdentityLinked(identity=command.identity, provider=command.provider),)


def _decide_role(command: Grant | TakeRole, state: Account) -> Sequence[Fact]:
    if command.role not in GRANTABLE:
        what = f"role {command.role!r} is none of {', '.join(GRANTABLE)}"
        raise Refused("invalid_request", what, "role")
    has_role = command.role in state.roles
    if isinstance(command, TakeRole):
        if not has_role:
            raise Refused("wrong_state", f"this participant is no {command.role}")
        return (RoleRevoked(role=command.role, reason=command.reason),)
    return () if has_role else (RoleGranted(role=command.role, reason=command.reason),)


def _check_token(fact: TokenIssued, at: datetime, state: Account) -> None:
    strange = [scope for scope in fact.scopes if scope not in SCOPES]
    if strange or not fact.scopes:
        what = f"scopes: {', '.join(strange) or 'none'} is none of {', '.join(SCOPES)}"
        raise Refused("invalid_request", what, "scopes")
    beyond = [scope for scope in fact.scopes if scope not in allowed(state.roles)]
    if beyond:
        what = f"the scopes {', '.join(beyond)} are not for this participant's roles"
        raise Refused("scope_missing", what, "scopes")
    if fact.expires_at is not None and fact.expires_at <= at:
        raise Refused("invalid_request", f"{fact.expires_at} is not in the future", "expires_at")
    if fact.problems and not STAFF_SCOPES.isdisjoint(fact.scopes):
        what = "a token for some problems alone cannot have the scopes of operators"
        raise Refused("invalid_request", what, "problems")
    kept = [one for one in state.tokens.values() if one.kind != WEB]
    held = [one for one in kept if not one.expires_at or at < one.expires_at]
    if fact.kind != WEB and len(held) >= TOKENS_MAX:
        what = f"a participant has at most {TOKENS_MAX} tokens: revoke one first"
        raise Refused("wrong_state", what)


def check_over(roles: Mapping[str, Collection[str]], actor: str, account: str) -> None:
    """Refuse what a moderator decides about somebody as mighty, or mightier; admins may."""
    own = roles.get(actor.removeprefix(ACTOR), ()) if actor.startswith(ACTOR) else ("admin",)
    if "admin" not in own and not STAFF_ROLES.isdisjoint(roles.get(account, ())):
        raise Refused("scope_missing", "this participant is an operator: an admin decides this")


def check_name(name: str) -> str:
    """A participant's name as it may be. Errors: Refused."""
    if not NAME.match(name):
        what = f"{name!r} is no name: 1 to 32 of a-z 0-9 _ and -, a letter or digit first"
        raise Refused("invalid_request", what, "name")
    return name


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
