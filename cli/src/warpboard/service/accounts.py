"""Log in and out; accounts, tokens, invites and notification preferences."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

import msgspec

from shared.api.accounts import (
    BanAppeal,
    CurrentAccount,
    Identity,
    IssuedToken,
    Participant,
    Token,
    Tokens,
)
from shared.api.leaderboards import Invite, InviteCodes, Invites
from shared.api.preferences import Preferences
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    instant_text,
    one_line,
    seconds_text,
)
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.answers import ActionRequest, RecordedEvent, send_action, show_answer
from warpboard.service.ports import Api, Connect, Screen, TokenStore, Unavailable

INTERVAL_S_MIN, INTERVAL_S_MAX = 0.2, 60.0
# Source: RFC 8628, section 3.5.
SLOWER_S = 5.0
WAITING, SLOW_DOWN = "authorization_pending", "slow_down"
ENDS = {"expired_token": "the code is too old", "access_denied": "it was not allowed"}
# The scopes that a login requests by default: everything that a participant may do.
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
PREFERENCES = ("me", "preferences")
DELIVERY_CHOICES = ("off", "thread", "dm")
# The choices for each preference, as the platform defines them.
PREFERENCE_CHOICES = {
    "overtaken": DELIVERY_CHOICES,
    "run-finished": DELIVERY_CHOICES,
    "deadline-near": DELIVERY_CHOICES,
    "ranked-line": ("on", "off"),
    "threads": ("default", "per_submission", "per_problem"),
}


class DeviceLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that waits for a person: what to show, and how to poll for its end (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = 600.0
    interval: float = 5.0


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A login that a person allowed (RFC 8628)."""

    access_token: str
    expires_in: float | None = None
    scope: str = ""
    participant: str = ""


@dataclass(frozen=True)
class LoginOptions:
    """Where to log in, the token's name and scopes, or an existing token."""

    url: str
    name: str
    scopes: Sequence[str]
    token: str | None = None


@dataclass(frozen=True)
class LoginContext:
    """What a login needs: the platform, stored tokens, and a way to open a page."""

    connect: Connect
    keys: TokenStore
    screen: Screen
    opened: Callable[[str], None]


async def login(context: LoginContext, options: LoginOptions, *, as_json: bool) -> int:
    """Get a token, try it and store it. Raises Refused, and Failed if nobody allowed it in time."""
    if options.token is None:
        async with context.connect(options.url) as api:
            token = (await _wait_for_grant(api, context, options)).access_token
    else:
        token = options.token
    async with context.connect(options.url, token=token) as api:
        answer = await api.get(CurrentAccount, "me")
    account = answer.value
    context.keys.keep(options.url, token)
    if as_json:
        context.screen.json({"url": options.url, "kept_in": context.keys.place, **answer.document})
        return OK
    context.screen.say(f"logged in to {options.url} as {account.name}")
    context.screen.note(f"the token is kept in {context.keys.place}")
    return OK


async def _wait_for_grant(api: Api, context: LoginContext, options: LoginOptions) -> TokenGrant:
    body = {"client_id": options.name, "scope": " ".join(options.scopes)}
    login = (await api.act(DeviceLogin, "POST", "auth", "device", body=body)).value
    for line in login_lines(login):
        context.screen.note(line)
    context.opened(login.verification_uri_complete or login.verification_uri)
    deadline = time.monotonic() + login.expires_in
    pause_s = min(max(login.interval, INTERVAL_S_MIN), INTERVAL_S_MAX)
    with context.screen.live(["login"]) as live:
        while (remaining_s := deadline - time.monotonic()) > 0:
            live.show(
                "login",
                ProgressText("waiting for you", estimate=f", {seconds_text(remaining_s)} left"),
            )
            await asyncio.sleep(min(pause_s, remaining_s))
            result = await _poll_grant(api, login)
            if isinstance(result, TokenGrant):
                return result
            pause_s = min(pause_s + result, INTERVAL_S_MAX)
    raise Failed("the code is too old: nobody allowed the login; warpboard login makes a new one")


async def _poll_grant(api: Api, login: DeviceLogin) -> TokenGrant | float:
    """Poll for the login's end; return it, or how much slower to poll. Raises Refused."""
    body = {"device_code": login.device_code}
    try:
        return (await api.act(TokenGrant, "POST", "auth", "device", "token", body=body)).value
    except Unavailable:
        return SLOWER_S
    except Refused as refused:
        if refused.code in (WAITING, SLOW_DOWN):
            return SLOWER_S if refused.code == SLOW_DOWN else 0.0
        reason = ENDS.get(refused.code)
        raise Refused(refused.code, f"no login: {reason}") if reason else refused from refused


async def logout(
    api: Api, token_store: TokenStore, screen: Screen, url: str, *, as_json: bool
) -> int:
    """Revoke the stored token if possible, and forget it."""
    is_revoked = token_store.token(url) is not None and await _revoke_token(api, screen)
    was_kept = token_store.forget(url)
    if as_json:
        screen.json({"url": url, "was_kept": was_kept, "is_revoked": is_revoked})
    elif was_kept:
        screen.say(f"logged out of {url}" + ("; the token is revoked" if is_revoked else ""))
    else:
        screen.say(f"no token of {url} is kept here")
    return OK


async def _revoke_token(api: Api, screen: Screen) -> bool:
    try:
        number = (await api.get(CurrentAccount, "me")).value.token
        if number is not None:
            await api.act(RecordedEvent, "DELETE", "tokens", number, body={})
            return True
    except (Refused, Failed) as trouble:
        screen.note(f"warpboard: the token could not be revoked there: {trouble}")
    return False


async def whoami(api: Api, screen: Screen, url: str, *, as_json: bool) -> int:
    """Show the current account. Raises Refused and Failed."""
    answer = await api.get(CurrentAccount, "me")
    if as_json:
        screen.json(answer.document | {"url": url})
        return OK
    for line in account_lines(answer.value, url):
        screen.say(line)
    return OK


async def show_participant(
    api: Api, screen: Screen, participant_name: str, *, as_json: bool
) -> int:
    """Show a participant to operators. Raises Refused and Failed."""
    answer = await api.get(Participant, "admin", "participants", participant_name)
    if as_json:
        screen.json(answer.document)
        return OK
    details = answer.value
    for line in participant_lines(details):
        screen.say(line)
    screen.table(token_table(details.tokens))
    return OK


async def resolve_name(api: Api, known_name: str | None) -> str:
    """Return the caller's name, from here or from the platform. Raises Refused and Failed."""
    return (
        known_name if known_name is not None else (await api.get(CurrentAccount, "me")).value.name
    )


async def unlink(api: Api, screen: Screen, identity_name: str, *, as_json: bool) -> int:
    """Remove an identity, named by its id or as `github:4242`.

    Raises Refused for an identity that is not the caller's, and Failed.
    """
    if ":" in identity_name:
        account = (await api.get(CurrentAccount, "me")).value
        ids = {
            f"{identity.provider}:{identity.subject}": identity.id
            for identity in account.identities
        }
        if identity_name not in ids:
            reason = (
                f"you are not known as {identity_name!r}: warpboard auth status says where you are"
            )
            raise Refused("unknown_identity", reason, "identity")
        identity_name = ids[identity_name]
    request = ActionRequest("DELETE", ("me", "identities", identity_name), {})
    return await send_action(api, screen, request, as_json=as_json)


async def list_tokens(api: Api, screen: Screen, *, as_json: bool) -> int:
    """List the caller's tokens."""
    answer = await api.get(Tokens, "tokens")
    return show_answer(screen, answer, token_table(answer.value.items), as_json=as_json)


async def create_token(
    api: Api, screen: Screen, body: Mapping[str, object], path: Sequence[str], as_json: bool
) -> int:
    """Create a token and show it, once."""
    answer = await api.act(IssuedToken, "POST", *path, body=body)
    if as_json:
        screen.json(answer.document)
        return OK
    created = answer.value
    screen.say(created.token)
    expires = f", good until {instant_text(created.expires_at)}" if created.expires_at else ""
    screen.note(f"token {created.id}{expires}: it is shown this once, so keep it now")
    return OK


async def join(api: Api, screen: Screen, code: str, *, as_json: bool) -> int:
    """Accept an invite. Raises Refused for an invalid code."""
    answer = await api.join(code)
    opened = answer.value.leaderboards
    if as_json:
        screen.json(answer.document)
    else:
        screen.say(f"{count_text(len(opened), 'leaderboard')} open to you: {', '.join(opened)}")
    return OK


async def list_invites(api: Api, screen: Screen, leaderboard: str, *, as_json: bool) -> int:
    """List the invites to a leaderboard, and who accepted them."""
    answer = await api.get(Invites, "admin", "leaderboards", leaderboard, "invites")
    invites = answer.value.items
    return show_answer(screen, answer, invite_table(leaderboard, invites), as_json=as_json)


async def create_invites(
    api: Api, screen: Screen, body: Mapping[str, object], *, as_json: bool
) -> int:
    """Create invites and print their codes."""
    answer = await api.act(InviteCodes, "POST", "admin", "invites", body=body)
    created = answer.value
    for code in () if as_json else created.codes:
        screen.say(code)
    if as_json:
        screen.json(answer.document)
    else:
        count = count_text(len(created.codes), "invite")
        screen.note(f"{count} to {', '.join(created.leaderboards)}; each opens once")
    return OK


def login_lines(login: DeviceLogin) -> Iterator[str]:
    """Tell a person how to finish a login."""
    uri = escape_control_characters(login.verification_uri)
    yield f"open {uri} and enter the code {login.user_code}"
    if login.verification_uri_complete:
        yield f"or open {escape_control_characters(login.verification_uri_complete)}"
    yield "allow it only if you started this login yourself"


def account_lines(account: CurrentAccount, url: str) -> Iterator[str]:
    """Describe the current account and its permissions."""
    yield f"{account.name} at {url}" + (f", {', '.join(account.roles)}" if account.roles else "")
    yield from _profile_lines(account)
    yield "may: " + (" ".join(sorted(account.scopes)) or NO_VALUE)
    if account.problems:
        yield f"for {', '.join(account.problems)} alone"


def participant_lines(details: Participant) -> Iterator[str]:
    """Describe a participant for operators."""
    yield f"{details.name}, account {details.participant_id}: {', '.join(details.roles)}"
    yield from _profile_lines(details)
    if details.ban_appeal is not None:
        yield from _appeal_lines(details.ban_appeal)


def _appeal_lines(appeal: BanAppeal) -> Iterator[str]:
    """Describe an appeal against a ban, and its result.

    >>> from datetime import datetime
    >>> filed_at = datetime(2026, 1, 2)
    >>> appeal = BanAppeal(text="not me", filed_at=filed_at, is_accepted=False, reason="it was")
    >>> list(_appeal_lines(appeal))
    ['appeals, rejected: it was', '  not me']
    """
    answer = "accepted" if appeal.is_accepted else "rejected"
    is_open = appeal.is_accepted is None
    yield (
        "appeals, not answered yet"
        if is_open
        else f"appeals, {answer}: {one_line(appeal.reason or NO_VALUE)}"
    )
    yield from (f"  {escape_control_characters(line)}" for line in appeal.text.splitlines())


def _profile_lines(profile: CurrentAccount | Participant) -> Iterator[str]:
    if profile.ban is not None:
        yield f"banned {one_line(profile.ban.removeprefix('you are banned, '), 300)}"
    if profile.identities:
        yield "identities: " + ", ".join(map(_identity_text, profile.identities))
    if profile.leaderboards:
        yield f"closed leaderboards: {', '.join(profile.leaderboards)}"


def _identity_text(identity: Identity) -> str:
    id_suffix = f" ({identity.id})" if identity.id else ""
    return one_line(f"{identity.provider}:{identity.subject}{id_suffix}", 200)


def token_table(tokens: Sequence[Token], zone: tzinfo | None = None) -> Table:
    """List the caller's tokens without their secrets."""
    rows = [
        (
            str(token.id),
            one_line(token.name, 40) or NO_VALUE,
            f"{token.prefix}…" if token.prefix else NO_VALUE,
            instant_text(token.created_at, zone),
            instant_text(token.last_used_at, zone),
            instant_text(token.expires_at, zone),
            " ".join(token.scopes) or NO_VALUE,
        )
        for token in tokens
    ]
    columns = ("number", "name", "begins", "created", "last used", "expires", "scopes")
    return Table("tokens", columns, rows)


def invite_table(leaderboard: str, invites: Sequence[Invite], zone: tzinfo | None = None) -> Table:
    """List the invites to a leaderboard, and who accepted them."""
    rows = [
        (
            invite.code,
            invite.participant or NO_VALUE,
            instant_text(invite.claimed_at, zone),
            instant_text(invite.created_at, zone),
            instant_text(invite.expires_at, zone),
        )
        for invite in invites
    ]
    columns = ("code", "participant", "claimed", "created", "expires")
    return Table(f"invites to {leaderboard}", columns, rows)


async def update_preferences(
    api: Api, screen: Screen, change: tuple[str, str] | None, *, as_json: bool
) -> int:
    """Change one preference if given, then show all. Raises Refused and Failed."""
    if change is None:
        answer = await api.get(Preferences, *PREFERENCES)
    else:
        name, value = change
        answer = await api.act(
            Preferences, "PUT", *PREFERENCES, body={name.replace("-", "_"): value}
        )
    preferences = answer.value
    if as_json:
        screen.json(answer.document)
        return OK
    for name in PREFERENCE_CHOICES:
        screen.say(f"{name}: {getattr(preferences, name.replace('-', '_'))}")
    return OK
