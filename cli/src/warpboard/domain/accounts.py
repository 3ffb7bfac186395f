"""Who somebody is at a platform: answers about logins, tokens and identities, and how they read."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec

from warpboard.domain.tables import Table
from warpboard.domain.units import NOTHING, harmless, one_line, when

# What a login asks for unless told otherwise: all that a participant may do.
SCOPES = (
    *("submit", "submit:ranked", "profile", "read:own"),
    *("delete:own", "join", "account", "webhooks"),
)
SCOPES_KNOWN = (
    *SCOPES,
    *("author", "admin", "admin:submissions", "admin:participants"),
    *("admin:problems", "admin:operate"),
)
ROLES = ("creator", "moderator", "admin")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A login that waits for a person: what to show them, and how to ask for its end.

    Source: RFC 8628.
    """

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = 600.0
    interval: float = 5.0


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A login that a person allowed. Source: RFC 8628."""

    access_token: str
    expires_in: float | None = None
    scope: str = ""
    user_name: str = ""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A name of a participant elsewhere."""

    provider: str
    subject: str = ""
    id: str = ""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a participant."""

    name: str
    roles: list[str] = []
    leaderboards: list[str] = []
    ban: str | None = None
    identities: list[Identity] = []


class Me(Person, frozen=True, kw_only=True):
    """Whom the platform takes one for; `token` is the number of the one that was shown."""

    token: int | None = None
    scopes: list[str] = []
    problems: list[str] = []


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is listed: its first characters, never all of them."""

    id: int
    name: str = ""
    prefix: str = ""
    kind: str = ""
    scopes: list[str] = []
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class BanAppeal(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says against their ban; `is_accepted` is None while nobody decided."""

    text: str
    filed_at: datetime | None = None
    is_accepted: bool | None = None
    reason: str | None = None


class Known(Person, frozen=True, kw_only=True):
    """What operators know of a participant."""

    participant_id: str = ""
    ban_appeal: BanAppeal | None = None
    tokens: list[Token] = []


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """One's tokens."""

    items: list[Token]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made, whole for this once."""

    id: int
    token: str
    name: str = ""
    scopes: list[str] = []
    expires_at: datetime | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The leaderboards that an invite opened."""

    leaderboards: list[str]


class Invite(msgspec.Struct, frozen=True, kw_only=True):
    """An invite to closed leaderboards, and who took it."""

    code: str
    name: str | None = None
    claimed_at: datetime | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None


class Invites(msgspec.Struct, frozen=True, kw_only=True):
    """The invites to one leaderboard."""

    items: list[Invite]


class Codes(msgspec.Struct, frozen=True, kw_only=True):
    """Invites that were just made."""

    leaderboards: list[str]
    codes: list[str]


def asking(device: Device) -> Iterator[str]:
    """What a person has to do so that a login ends."""
    yield f"open {harmless(device.verification_uri)} and enter the code {device.user_code}"
    if device.verification_uri_complete:
        yield f"or open {harmless(device.verification_uri_complete)}"
    yield "allow it only if you started this login yourself"


def who(me: Me, url: str) -> Iterator[str]:
    """Whom the platform takes one for, and what that one may."""
    yield f"{me.name} at {url}" + (f", {', '.join(me.roles)}" if me.roles else "")
    yield from _about(me)
    yield "may: " + (" ".join(sorted(me.scopes)) or NOTHING)
    if me.problems:
        yield f"for {', '.join(me.problems)} alone"


def known(found: Known) -> Iterator[str]:
    """What operators know of a participant."""
    yield f"{found.name}, account {found.participant_id}: {', '.join(found.roles)}"
    yield from _about(found)
    if found.ban_appeal is not None:
        yield from _appeal(found.ban_appeal)


def _appeal(found: BanAppeal) -> Iterator[str]:
    """A ban's appeal, with what became of it.

    >>> list(_appeal(BanAppeal(text="not me", is_accepted=False, reason="it was")))
    ['appeals, rejected: it was', '  not me']
    """
    answer = "accepted" if found.is_accepted else "rejected"
    is_open = found.is_accepted is None
    yield (
        "appeals, not answered yet"
        if is_open
        else f"appeals, {answer}: {one_line(found.reason or NOTHING)}"
    )
    yield from (f"  {harmless(line)}" for line in found.text.splitlines())


def _about(person: Person) -> Iterator[str]:
    if person.ban is not None:
        yield f"banned {one_line(person.ban.removeprefix('you are banned, '), 300)}"
    if person.identities:
        yield "identities: " + ", ".join(map(_identity, person.identities))
    if person.leaderboards:
        yield f"closed leaderboards: {', '.join(person.leaderboards)}"


def _identity(one: Identity) -> str:
    named = f" ({one.id})" if one.id else ""
    return one_line(f"{one.provider}:{one.subject}{named}", 200)


def tokens(found: Sequence[Token], zone: tzinfo | None = None) -> Table:
    """One's tokens, without what is secret of them."""
    rows = [
        (
            str(one.id),
            one_line(one.name, 40) or NOTHING,
            f"{one.prefix}…" if one.prefix else NOTHING,
            when(one.created_at, zone),
            when(one.last_used_at, zone),
            when(one.expires_at, zone),
            " ".join(one.scopes) or NOTHING,
        )
        for one in found
    ]
    columns = ("number", "name", "begins", "created", "last used", "expires", "scopes")
    return Table("tokens", columns, rows)


def invites(leaderboard: str, found: Sequence[Invite], zone: tzinfo | None = None) -> Table:
    """The invites to a leaderboard, and who took them."""
    rows = [
        (
            one.code,
            one.name or NOTHING,
            when(one.claimed_at, zone),
            when(one.created_at, zone),
            when(one.expires_at, zone),
        )
        for one in found
    ]
    columns = ("code", "participant", "claimed", "created", "expires")
    return Table(f"invites to {leaderboard}", columns, rows)
