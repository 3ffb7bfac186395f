"""Rules of accounts: bans, roles, tokens, identities, and the tables with their names."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from ingest.access.callers import ALLOWED, STAFF_SCOPES, allowed_scopes
from ingest.consents import rules as consents
from ingest.consents.rules import Consents
from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    SCOPES,
    AccountBanned,
    AccountOpened,
    AccountTablesAdopted,
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
# Web logins do not count against TOKENS_MAX: somebody with too many tokens must be able to log in
# and revoke some.
WEB = "web"
STAFF_ROLES = frozenset({"moderator", "admin"})
GRANTABLE = tuple(role for role in ALLOWED if role != "participant")

LOST = (
    "the platform has lost its table of names: no name can be given until an operator restores "
    "the backup (`warpboard server restore`) or starts over (`warpboard admin account adopt`)"
)


@dataclass(frozen=True)
class Account:
    """The state of an account; `ban` is the last ban, None if it was lifted.

    `tokens` holds the tokens that are not revoked, by id; `identities` maps each identity to its
    provider. `consents` holds what was accepted for each problem.
    """

    ban: AccountBanned | None = None
    is_opened: bool = False
    roles: frozenset[str] = frozenset()
    tokens: Mapping[str, TokenIssued] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    consents: Consents = field(default_factory=dict)

    def ban_at(self, at: datetime) -> AccountBanned | None:
        """Return the ban in force at a time, or None."""
        ban = self.ban
        return ban if ban and (ban.until_at is None or at < ban.until_at) else None


@dataclass(frozen=True)
class Ban:
    """Ban a participant, until a time or for ever."""

    reason: str
    at: datetime
    until_at: datetime | None = None


@dataclass(frozen=True)
class Unban:
    """Lift a ban."""

    reason: str
    at: datetime


@dataclass(frozen=True)
class Open:
    """Open an account; `via` is how the participant came."""

    via: str


@dataclass(frozen=True)
class Link:
    """Link an identity of another provider to a participant."""

    identity: str
    provider: str


@dataclass(frozen=True)
class Unlink:
    """Remove an identity from a participant."""

    identity: str
    reason: str


@dataclass(frozen=True)
class Issue:
    """Issue a token."""

    fact: TokenIssued
    at: datetime


@dataclass(frozen=True)
class Revoke:
    """Revoke a token."""

    token: str
    reason: str


@dataclass(frozen=True)
class Grant:
    """Give a participant a role."""

    role: str
    reason: str


@dataclass(frozen=True)
class TakeRole:
    """Take a role from a participant."""

    role: str
    reason: str


AccountCommand = Ban | Unban | Open | Link | Unlink | Issue | Revoke | Grant | TakeRole


def decide(command: AccountCommand, state: Account) -> Sequence[Fact]:
    """Return the new events; nothing if the account is in that state already. Raises `Refused`."""
    match command:
        case Ban() | Unban():
            return _decide_ban(command, state)
        case Open(via):
            return () if state.is_opened else (AccountOpened(via=via),)
        case Link() | Unlink():
            return _decide_identity(command, state)
        case Issue(fact, at):
            _check_new_token(fact, at, state)
            return (fact,)
        case Revoke(token, reason):
            if token not in state.tokens:
                raise Refused("unknown_token", "there is no such token, or it is revoked", "id")
            return (TokenRevoked(token=token, reason=reason),)
    return _decide_role(command, state)


def evolve(state: Account, fact: Fact) -> Account:
    """Return the account after one more event."""
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
    return _evolve_holdings(state, fact)


def _evolve_holdings(state: Account, fact: Fact) -> Account:
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
    return {name: value for name, value in table.items() if name != key}


def _decide_ban(command: Ban | Unban, state: Account) -> Sequence[Fact]:
    ban = state.ban_at(command.at)
    if isinstance(command, Unban):
        if ban is None:
            raise Refused("wrong_state", "this participant is not banned")
        return (AccountUnbanned(reason=command.reason),)
    if ban is not None:
        raise Refused("wrong_state", f"this participant is already banned, {format_ban_end(ban)}")
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
        message = f"a participant has at most {IDENTITIES_MAX} identities: unlink one first"
        raise Refused("invalid_request", message, "provider")
    return (IdentityLinked(identity=command.identity, provider=command.provider),)


def _decide_role(command: Grant | TakeRole, state: Account) -> Sequence[Fact]:
    if command.role not in GRANTABLE:
        message = f"role {command.role!r} is none of {', '.join(GRANTABLE)}"
        raise Refused("invalid_request", message, "role")
    has_role = command.role in state.roles
    if isinstance(command, TakeRole):
        if not has_role:
            raise Refused("wrong_state", f"this participant is not a {command.role}")
        return (RoleRevoked(role=command.role, reason=command.reason),)
    return () if has_role else (RoleGranted(role=command.role, reason=command.reason),)


def _check_new_token(fact: TokenIssued, at: datetime, state: Account) -> None:
    unknown = [scope for scope in fact.scopes if scope not in SCOPES]
    if unknown or not fact.scopes:
        message = f"scopes: {', '.join(unknown) or 'none'} is none of {', '.join(SCOPES)}"
        raise Refused("invalid_request", message, "scopes")
    disallowed = [scope for scope in fact.scopes if scope not in allowed_scopes(state.roles)]
    if disallowed:
        message = f"the roles of this participant do not allow the scopes {', '.join(disallowed)}"
        raise Refused("scope_missing", message, "scopes")
    if fact.expires_at is not None and fact.expires_at <= at:
        raise Refused("invalid_request", f"{fact.expires_at} is not in the future", "expires_at")
    if fact.problems and not STAFF_SCOPES.isdisjoint(fact.scopes):
        message = "a token that is limited to problems cannot have operator scopes"
        raise Refused("invalid_request", message, "problems")
    api_tokens = [token for token in state.tokens.values() if token.kind != WEB]
    live_tokens = [token for token in api_tokens if not token.expires_at or at < token.expires_at]
    if fact.kind != WEB and len(live_tokens) >= TOKENS_MAX:
        message = f"a participant has at most {TOKENS_MAX} tokens: revoke one first"
        raise Refused("wrong_state", message)


def check_over(roles: Mapping[str, Collection[str]], actor: str, account: str) -> None:
    """Refuse decisions of moderators about other operators; admins may decide about anybody."""
    actor_roles = (
        roles.get(actor.removeprefix(ACTOR), ()) if actor.startswith(ACTOR) else ("admin",)
    )
    if "admin" not in actor_roles and not STAFF_ROLES.isdisjoint(roles.get(account, ())):
        raise Refused("scope_missing", "this participant is an operator: only an admin may do this")


def check_name(name: str, code: str = "invalid_request", field: str = "name") -> str:
    """Return a name if it is valid. Raises `Refused` with this code, naming the field."""
    if not NAME.match(name):
        message = f"{name!r} is not a name: use 1 to 32 of a-z 0-9 _ -, first a letter or digit"
        raise Refused(code, message, field)
    return name


def check_ban(state: Account, at: datetime) -> None:
    """Refuse a banned participant, with the reason and the end of the ban."""
    if ban := state.ban_at(at):
        wait_s = None if ban.until_at is None else (ban.until_at - at).total_seconds()
        raise Refused(
            "user_banned",
            f"you may not submit, {format_ban_end(ban)}: {ban.reason}",
            retry_after_s=wait_s,
        )


def format_ban_end(ban: AccountBanned) -> str:
    """Return how long a ban lasts, in words.

    >>> format_ban_end(AccountBanned(reason="copied"))
    'for ever'
    """
    return "for ever" if ban.until_at is None else f"until {ban.until_at.isoformat()}"


@dataclass(frozen=True)
class Adopt:
    """Accept the tables of this register as the ones of the log."""

    register: str
    reason: str


def decide_adoption(command: Adopt, state: str | None) -> Sequence[Fact]:
    """Return the adoption, or nothing if this register is adopted already."""
    if state == command.register:
        return ()
    return (AccountTablesAdopted(register=command.register, reason=command.reason),)


def evolve_register(state: str | None, fact: Fact) -> str | None:
    """Return the register that was adopted last."""
    return fact.register if isinstance(fact, AccountTablesAdopted) else state


tables = Decider[Adopt, str | None, Fact](None, decide_adoption, evolve_register)


def accounts_lost() -> Refused:
    """Return the refusal for requests that need names while the tables are lost."""
    return Refused("accounts_lost", LOST)


def name_lost(account: str) -> Refused:
    """Return the refusal for an account whose name was lost."""
    message = (
        f"the platform lost the name of your account {account}: ask an operator to give it one "
        f"(`warpboard admin participant rename {account} NAME`), then try again"
    )
    return Refused("name_lost", message)
