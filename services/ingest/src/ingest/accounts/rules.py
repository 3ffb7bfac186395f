"""Rules of accounts: bans, roles, scopes, tokens, identities, consents, preferences, lost names."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, TypeVar, get_args

from shared import events
from shared.api.accounts import Preferences
from shared.errors import Refused
from shared.event_log import Decider, RecordedEvent
from shared.events import SCOPES
from shared.subjects import last_token
from shared.wire import is_genuine

ACTOR = "account:"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
TOKENS_MAX = 100
IDENTITIES_MAX = 20
Held = TypeVar("Held")
# Web logins do not count against TOKENS_MAX: somebody with too many tokens must be able to log in
# and revoke some.
WEB = "web"
ADMIN = "admin"
PARTICIPANT_SCOPES = frozenset(
    (
        *("submit", "submit:ranked", "profile", "read:own", "delete:own"),
        *("join", "account", "webhooks"),
    )
)
CREATOR_SCOPES = PARTICIPANT_SCOPES | {"author"}
MODERATOR_SCOPES = CREATOR_SCOPES | {"admin:submissions", "admin:participants"}
STAFF_SCOPES = frozenset(SCOPES) - CREATOR_SCOPES
# Callers through the Discord bot get no operator scopes and create nothing that outlives the visit.
NOT_VOUCHED = STAFF_SCOPES | {"account", "webhooks"}
# Operators through the Discord bot keep these scopes: none that gives anybody more rights.
STAFF_VOUCHED = STAFF_SCOPES - {ADMIN}
ALLOWED: Mapping[str, frozenset[str]] = {
    "participant": PARTICIPANT_SCOPES,
    "creator": CREATOR_SCOPES,
    "moderator": MODERATOR_SCOPES,
    "admin": frozenset(SCOPES),
}
# Banned participants may still read their own submissions.
BANNED_SCOPES = frozenset({"read:own"})
SCOPE_OF_MODE = {
    "test": "submit",
    "benchmark": "submit",
    "profile": "profile",
    "ranked": "submit:ranked",
}
STAFF_ROLES = frozenset({"moderator", "admin"})
GRANTABLE = tuple(role for role in ALLOWED if role != "participant")

LOST = (
    "the platform has lost its table of names: no name can be given until an operator restores "
    "the backup (`warpboard server restore`) or starts over (`warpboard admin account adopt`)"
)
# The digest of the text that was accepted, by problem.
Consents = Mapping[str, str]
# The chosen values; preferences that are missing have their default.
Chosen = Mapping[str, str]
# The choices for each preference; the first one is the default.
PREFERENCES = {name: get_args(hint) for name, hint in Preferences.__annotations__.items()}
DEFAULTS = {name: values[0] for name, values in PREFERENCES.items()}


def allowed_scopes(roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes that roles allow; everybody is a participant.

    >>> "author" in allowed_scopes([]), "author" in allowed_scopes(["creator"])
    (False, True)
    """
    return PARTICIPANT_SCOPES.union(*(ALLOWED.get(role, frozenset()) for role in roles))


def effective_scopes(scopes: Iterable[str], roles: Iterable[str]) -> frozenset[str]:
    """Return the scopes of a token for an account with these roles.

    >>> sorted(effective_scopes(["admin", "submit"], ["moderator"]))
    ['admin:participants', 'admin:submissions', 'submit']
    """
    token_scopes = frozenset(scopes)
    if ADMIN in token_scopes:
        token_scopes |= STAFF_SCOPES
    return token_scopes & allowed_scopes(roles)


@dataclass(frozen=True)
class Account:
    """The state of an account; `ban` is the last ban, None if it was lifted.

    `tokens` holds the tokens that are not revoked, by id; `identities` maps each identity to its
    provider. `consents` holds what was accepted for each problem.
    """

    ban: events.AccountBanned | None = None
    is_opened: bool = False
    roles: frozenset[str] = frozenset()
    tokens: Mapping[str, events.TokenIssued] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    consents: Consents = field(default_factory=dict)

    def ban_at(self, at: datetime) -> events.AccountBanned | None:
        """Return the ban in force at a time, or None."""
        ban = self.ban
        return ban if ban and (ban.until_at is None or at < ban.until_at) else None


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
        case events.RoleGranted():
            return replace(state, roles=state.roles | {fact.role})
        case events.RoleRevoked():
            return replace(state, roles=state.roles - {fact.role})
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


accounts = Decider[AccountCommand, Account, events.Fact](Account(), decide, evolve)


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
    if event.role not in GRANTABLE:
        message = f"role {event.role!r} is none of {', '.join(GRANTABLE)}"
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


def format_ban_end(ban: events.AccountBanned) -> str:
    """Return how long a ban lasts, in words.

    >>> format_ban_end(events.AccountBanned(reason="copied"))
    'for ever'
    """
    return "for ever" if ban.until_at is None else f"until {ban.until_at.isoformat()}"


def decide_adoption(
    command: events.AccountTablesAdopted, state: str | None
) -> Sequence[events.Fact]:
    """Return the adoption, or nothing if this register is adopted already."""
    return () if state == command.register else (command,)


def evolve_register(state: str | None, fact: events.Fact) -> str | None:
    """Return the register that was adopted last."""
    return fact.register if isinstance(fact, events.AccountTablesAdopted) else state


tables = Decider[events.AccountTablesAdopted, str | None, events.Fact](
    None, decide_adoption, evolve_register
)


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


class GiveConsent(NamedTuple):
    """Accept the text with this digest; `published` is the current version of the problem."""

    problem: str
    digest: str
    published: events.ProblemPublished


def consent_digest(published: events.ProblemPublished) -> str | None:
    """Return the digest of the text that a problem asks to accept, or None.

    The file named by the event is among its files; otherwise it would not have been published.
    """
    return published.files[published.consent].digest if published.consent else None


def decide_consent(command: GiveConsent, state: Consents) -> Sequence[events.Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another text."""
    slug, digest, published = command
    if digest != consent_digest(published):
        message = f"{slug} does not ask for consent to a text with this digest: read it again"
        raise Refused("wrong_state", message, "digest")
    if state.get(slug) == digest:
        return ()
    return (events.ConsentGiven(problem=slug, number=published.number, digest=digest),)


def decide_withdrawal(slug: str, state: Consents) -> Sequence[events.Fact]:
    """Return the event, or nothing if there is no consent."""
    digest = state.get(slug)
    return () if digest is None else (events.ConsentWithdrawn(problem=slug, digest=digest),)


def evolve_consents(state: Consents, fact: events.Fact) -> Consents:
    """Return the consents of a participant after one more event."""
    match fact:
        case events.ConsentGiven():
            return {**state, fact.problem: fact.digest}
        case events.ConsentWithdrawn():
            return {slug: digest for slug, digest in state.items() if slug != fact.problem}
    return state


consents = Decider[GiveConsent, Consents, events.Fact]({}, decide_consent, evolve_consents)
withdrawals = Decider[str, Consents, events.Fact]({}, decide_withdrawal, evolve_consents)


def check_consent(state: Consents, slug: str, published: events.ProblemPublished) -> None:
    """Refuse a participant who has not accepted the text of a problem."""
    required = consent_digest(published)
    if required is not None and state.get(slug) != required:
        message = (
            f"{slug} requires your consent to {published.consent} to submit: read and accept it by "
            f"`warpboard problem consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        )
        raise Refused("consent_missing", message, "problem")


def decide_preferences(changes: Mapping[str, str], state: Chosen) -> Sequence[events.Fact]:
    """Return the changes; unchanged preferences are omitted.

    Raises `Refused` if a preference or value does not exist.
    """
    for name, value in changes.items():
        if value not in PREFERENCES.get(name, ()):
            known = ", ".join(PREFERENCES.get(name, PREFERENCES))
            raise Refused("invalid_request", f"{value!r} is not one of {known}", name)
    now = with_defaults(state)
    return [
        events.PreferenceSet(preference=name, value=value)
        for name, value in changes.items()
        if now[name] != value
    ]


def evolve_preferences(state: Chosen, fact: events.Fact) -> Chosen:
    """Return the chosen preferences after one more event."""
    if isinstance(fact, events.PreferenceSet):
        return {**state, fact.preference: fact.value}
    return state


preferences = Decider[Mapping[str, str], Chosen, events.Fact](
    {}, decide_preferences, evolve_preferences
)


def with_defaults(chosen: Chosen) -> dict[str, str]:
    """Return every preference, with defaults where nothing was chosen.

    >>> with_defaults({"overtaken": "dm"})["overtaken"], with_defaults({})["overtaken"]
    ('dm', 'off')
    """
    return {name: chosen.get(name, default) for name, default in DEFAULTS.items()}


@dataclass
class PreferenceIndex:
    """The preferences of all participants, folded from the log."""

    seq: int = 0
    chosen: dict[str, Chosen] = field(default_factory=dict)

    def take(self, event: RecordedEvent) -> None:
        """Fold one more event; an event that was folded before changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if event.envelope.type == events.PreferenceSet.__name__ and is_genuine(event.envelope):
            account = last_token(event.envelope.agg)
            self.chosen[account] = evolve_preferences(self.chosen.get(account, {}), event.fact)

    def of(self, account: str) -> dict[str, str]:
        """Return the preferences of a participant."""
        return with_defaults(self.chosen.get(account, {}))

    def who(self, preference: str) -> Iterable[str]:
        """Return the accounts that chose something other than the default."""
        default = DEFAULTS[preference]
        return [
            account
            for account, chosen in self.chosen.items()
            if chosen.get(preference, default) != default
        ]
