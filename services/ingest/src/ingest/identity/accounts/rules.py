"""Rules of accounts: bans, roles, tokens, identities and the adoption of their tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from ingest.identity.access.fold import SESSION_KIND
from ingest.identity.bans import ban_at, format_ban_end
from ingest.identity.caller import acting_account
from ingest.identity.scopes import ADMIN, GRANTABLE_ROLES, STAFF_ROLES, STAFF_SCOPES, allowed_scopes
from shared import events
from shared.errors import Refused
from shared.event_log import Decider
from shared.licences import UNDECIDED

# Browser sessions do not count: with too many tokens, one must still be able to log in and revoke.
TOKENS_MAX = 100
IDENTITIES_MAX = 20
Held = TypeVar("Held")

# The digest of the text that was accepted, by problem.
Consents = Mapping[str, str]


@dataclass(frozen=True)
class Account:
    """The state of an account; `ban` is the last ban, None if it was lifted.

    `tokens` holds the tokens that are not revoked, by id; `identities` maps each identity to its
    provider. `consents` holds what was accepted for each problem, and `licence` is the one that was
    chosen for all sources.
    """

    ban: events.AccountBanned | None = None
    is_opened: bool = False
    roles: frozenset[str] = frozenset()
    tokens: Mapping[str, events.TokenIssued] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    consents: Consents = field(default_factory=dict)
    licence: str = UNDECIDED

    def ban_at(self, at: datetime) -> events.AccountBanned | None:
        """Return the ban in force at a time, or None."""
        return ban_at(self.ban, at)


AccountEvent = (
    events.AccountBanned
    | events.AccountUnbanned
    | events.AccountOpened
    | events.IdentityLinked
    | events.IdentityUnlinked
    | events.TokenIssued
    | events.TokenRevoked
    | events.RoleGranted
    | events.RoleRevoked
)


class AccountCommand(NamedTuple):
    """An event to record at this time, unless it is refused."""

    event: AccountEvent
    at: datetime


def decide(command: AccountCommand, state: Account) -> Sequence[events.Fact]:
    """Return the new events; nothing if the account is in that state already. Raises `Refused`."""
    event, at = command
    is_change = True
    match event:
        case events.AccountBanned() | events.AccountUnbanned():
            _check_ban_change(event, at, state)
        case events.AccountOpened():
            is_change = not state.is_opened
        case events.IdentityLinked() | events.IdentityUnlinked():
            is_change = _check_identity(event, state)
        case events.TokenIssued():
            _check_new_token(event, at, state)
        case events.TokenRevoked():
            if event.token not in state.tokens:
                raise Refused("unknown_token", "there is no such token, or it is revoked", "id")
        case events.RoleGranted() | events.RoleRevoked():
            is_change = _check_role(event, state)
    return (event,) if is_change else ()


def evolve(state: Account, fact: events.Fact) -> Account:
    """Return the account after one more event."""
    match fact:
        case events.AccountBanned():
            return replace(state, ban=fact)
        case events.AccountUnbanned():
            return replace(state, ban=None)
        case events.AccountOpened():
            return replace(state, is_opened=True)
        case events.RoleGranted() | events.RoleRevoked():
            is_granted, role = isinstance(fact, events.RoleGranted), {fact.role}
            return replace(state, roles=state.roles | role if is_granted else state.roles - role)
        case events.PreferenceSet(preference="licence"):
            return replace(state, licence=fact.value)
    return _evolve_holdings(state, fact)


def _evolve_holdings(state: Account, fact: events.Fact) -> Account:
    match fact:
        case events.IdentityLinked():
            return replace(state, identities={**state.identities, fact.identity: fact.provider})
        case events.IdentityUnlinked():
            return replace(state, identities=_without(state.identities, fact.identity))
        case events.TokenIssued():
            return replace(state, tokens={**state.tokens, fact.token: fact})
        case events.TokenRevoked():
            return replace(state, tokens=_without(state.tokens, fact.token))
        case events.ConsentGiven() | events.ConsentWithdrawn():
            return replace(state, consents=evolve_consents(state.consents, fact))
    return state


ACCOUNT_DECIDER = Decider[AccountCommand, Account, events.Fact](Account(), decide, evolve)


def _without(table: Mapping[str, Held], key: str) -> dict[str, Held]:
    return {name: value for name, value in table.items() if name != key}


def _check_ban_change(
    event: events.AccountBanned | events.AccountUnbanned, at: datetime, state: Account
) -> None:
    ban = state.ban_at(at)
    if isinstance(event, events.AccountUnbanned):
        if ban is None:
            raise Refused("wrong_state", "this participant is not banned")
        return
    if ban is not None:
        raise Refused("wrong_state", f"this participant is already banned, {format_ban_end(ban)}")
    if event.until_at is not None and event.until_at <= at:
        raise Refused("invalid_request", f"{event.until_at} is not in the future", "until_at")


def _check_identity(event: events.IdentityLinked | events.IdentityUnlinked, state: Account) -> bool:
    """Return whether the event changes anything. Raises `Refused`."""
    is_linked = event.identity in state.identities
    if isinstance(event, events.IdentityUnlinked):
        if not is_linked:
            raise Refused("unknown_identity", "there is no such identity", "identity")
        return True
    if not is_linked and len(state.identities) >= IDENTITIES_MAX:
        message = f"a participant has at most {IDENTITIES_MAX} identities: unlink one first"
        raise Refused("invalid_request", message, "provider")
    return not is_linked


def _check_role(event: events.RoleGranted | events.RoleRevoked, state: Account) -> bool:
    """Return whether the event changes anything. Raises `Refused`."""
    if event.role not in GRANTABLE_ROLES:
        message = f"role {event.role!r} is none of {', '.join(GRANTABLE_ROLES)}"
        raise Refused("invalid_request", message, "role")
    has_role = event.role in state.roles
    if isinstance(event, events.RoleRevoked) and not has_role:
        raise Refused("wrong_state", f"this participant is not a {event.role}")
    return isinstance(event, events.RoleRevoked) or not has_role


def _check_new_token(fact: events.TokenIssued, at: datetime, state: Account) -> None:
    unknown = [scope for scope in fact.scopes if scope not in events.SCOPES]
    if unknown or not fact.scopes:
        message = f"scopes: {', '.join(unknown) or 'none'} is none of {', '.join(events.SCOPES)}"
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
    api_tokens = [token for token in state.tokens.values() if token.kind != SESSION_KIND]
    live_tokens = [token for token in api_tokens if not token.expires_at or at < token.expires_at]
    if fact.kind != SESSION_KIND and len(live_tokens) >= TOKENS_MAX:
        message = f"a participant has at most {TOKENS_MAX} tokens: revoke one first"
        raise Refused("wrong_state", message)


def check_outranks(roles: Mapping[str, Collection[str]], actor: str, account: str) -> None:
    """Refuse decisions of moderators about other operators; admins may decide about anybody."""
    acting = acting_account(actor)
    actor_roles = (ADMIN,) if acting is None else roles.get(acting, ())
    if ADMIN not in actor_roles and not STAFF_ROLES.isdisjoint(roles.get(account, ())):
        raise Refused("scope_missing", "this participant is an operator: only an admin may do this")


def decide_adoption(
    command: events.AccountTablesAdopted, state: str | None
) -> Sequence[events.Fact]:
    """Return the adoption, or nothing if this register is adopted already."""
    return () if state == command.register else (command,)


def evolve_register(state: str | None, fact: events.Fact) -> str | None:
    """Return the register that was adopted last."""
    return fact.register if isinstance(fact, events.AccountTablesAdopted) else state


TABLES_DECIDER = Decider[events.AccountTablesAdopted, str | None, events.Fact](
    None, decide_adoption, evolve_register
)


def evolve_consents(state: Consents, fact: events.Fact) -> Consents:
    """Return the consents of a participant after one more event."""
    match fact:
        case events.ConsentGiven():
            return {**state, fact.problem: fact.digest}
        case events.ConsentWithdrawn():
            return {slug: digest for slug, digest in state.items() if slug != fact.problem}
    return state
