"""Commands for your account: login, permissions, tokens, identities and notifications."""

import asyncio
import platform
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, get_args

import click
import msgspec
from click import IntRange

from shared.api.accounts import (
    CurrentAccount,
    DeliveryChannel,
    IssuedToken,
    Merge,
    MergeCode,
    MergePreview,
    OnOff,
    Participant,
    Preferences,
    ThreadChoice,
    Token,
    Tokens,
)
from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from shared.licences import AccountLicence
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import (
    NO_VALUE,
    escape_control_characters,
    instant_text,
    one_line,
    seconds_text,
)
from warpboard.api import Api
from warpboard.context import AppContext, RecordedEvent, send_action
from warpboard.domain.names import checked_token
from warpboard.domain.output import FAILED, Table, make_table
from warpboard.terminal import options
from warpboard.terminal.options import api_command, can_ask, confirm, local_command

DAYS_MAX = 365
PREFERENCES = ("me", "preferences")
PREFERENCE_CHOICES = {
    "overtaken": get_args(DeliveryChannel),
    "run-finished": get_args(DeliveryChannel),
    "deadline-near": get_args(DeliveryChannel),
    "ranked-line": get_args(OnOff),
    "licence": get_args(AccountLicence),
    "threads": get_args(ThreadChoice),
}

TOKEN_LENGTH_MAX = 1024
CLIENT_LENGTH_MAX = 64
INTERVAL_S_MIN, INTERVAL_S_MAX = 0.2, 60.0
# Source: RFC 8628, section 3.5.
SLOWER_S = 5.0
WAITING, SLOW_DOWN = "authorization_pending", "slow_down"
ENDS = {"expired_token": "the code is too old", "access_denied": "it was not allowed"}


@api_command("auth status --json")
async def show_account(context: AppContext, api: Api) -> int:
    """Show the current account and its permissions."""
    url = context.url
    answer = await api.get(CurrentAccount, "me")
    account = answer.value
    lines = [
        f"{account.name} at {url}" + (f", {', '.join(account.roles)}" if account.roles else ""),
        *profile_lines(account),
        f"may: {' '.join(sorted(account.scopes)) or NO_VALUE}",
    ]
    lines += [f"only for {', '.join(account.problems)}"] if account.problems else []
    return context.show(answer.document | {"url": url}, lines)


def profile_lines(profile: CurrentAccount | Participant) -> Iterator[str]:
    """Describe an account's ban, identities and closed leaderboards."""
    if profile.ban is not None:
        yield f"banned {one_line(profile.ban.removeprefix('you are banned, '), 300)}"
    if profile.identities:
        texts = (
            f"{identity.provider}:{identity.subject}" + (f" ({identity.id})" if identity.id else "")
            for identity in profile.identities
        )
        yield "identities: " + ", ".join(one_line(text, 200) for text in texts)
    if profile.leaderboards:
        yield f"closed leaderboards: {', '.join(profile.leaderboards)}"


async def resolve_name(api: Api, known_name: str | None) -> str:
    """Return the caller's name, from here or from the platform. Raises Refused and Failed."""
    if known_name is not None:
        return known_name
    return (await api.get(CurrentAccount, "me")).value.name


@api_command("auth token list", parameters=(options.WIDE,))
async def list_tokens(context: AppContext, api: Api) -> int:
    """List your tokens, and when each was last used."""
    answer = await api.get(Tokens, "tokens")
    return context.show(answer.document, [token_table(answer.value.items)])


def token_table(tokens: Sequence[Token]) -> Table:
    """List the caller's tokens without their secrets."""
    rows = [
        {
            "number": token.id,
            "name": one_line(token.name, 40) or None,
            "begins": f"{token.prefix}…" if token.prefix else None,
            "created": token.created_at,
            "last used": token.last_used_at,
            "expires": token.expires_at,
            "scopes": token.scopes,
        }
        for token in tokens
    ]
    return make_table("tokens", rows, extra=("created", "begins", "last used", "scopes"))


@api_command(
    "auth token create tuner --scope submit --scope read:own --days 7",
    parameters=(
        click.argument("name"),
        click.option(
            *("--days", "expires_in_days"),
            type=IntRange(1, DAYS_MAX),
            default=90,
            show_default=True,
            help="How many days it is valid.",
        ),
        click.option(
            *("--problem", "problems"),
            multiple=True,
            metavar="SLUG",
            help="Only valid for this problem; may be repeated.",
        ),
        options.TOKEN_SCOPES,
    ),
)
async def create_token(
    context: AppContext, api: Api, problems: Sequence[str], **body: object
) -> int:
    """Issue a token called NAME; it is shown only once.

    It is for a program that submits, for example.
    """
    return await issue_token(
        context, api, "tokens", body=body | ({"problems": problems} if problems else {})
    )


async def issue_token(context: AppContext, api: Api, *path: str, body: Mapping[str, object]) -> int:
    """Issue a token and show it, once."""
    answer = await api.act(IssuedToken, "POST", *path, body=body)
    created = answer.value
    expires = f", valid until {instant_text(created.expires_at)}" if created.expires_at else ""
    note = f"token {created.id}{expires}: it is shown only once, so copy it now"
    return context.show(answer.document, [created.token], note)


@api_command(
    "auth unlink github:583231", parameters=(click.argument("identity_name", metavar="IDENTITY"),)
)
async def unlink(context: AppContext, api: Api, identity_name: str) -> int:
    """Remove an IDENTITY from your account.

    Nobody can log in with it any more. `auth status` lists your identities.
    """
    if ":" in identity_name:
        account = (await api.get(CurrentAccount, "me")).value
        ids = {
            f"{identity.provider}:{identity.subject}": identity.id
            for identity in account.identities
        }
        if identity_name not in ids:
            advice = "warpboard auth status says where you are"
            reason = f"you are not known as {identity_name!r}: {advice}"
            raise Refused("unknown_identity", reason, "identity")
        identity_name = ids[identity_name]
    return await send_action(context, api, "DELETE", "me", "identities", identity_name)


@api_command(
    "auth merge",
    "auth merge ph3wmqk7zvd2tqexample4nbra",
    parameters=(click.argument("code", required=False), options.YES),
)
async def merge(context: AppContext, api: Api, code: str | None, *, is_sure: bool) -> int:
    """Merge two accounts of yours, by a code from one of them.

    Without CODE it prints one: log in to the account that is to remain, and run it there with that
    code. The other account becomes part of it. `auth unmerge` undoes it for seven days.
    """
    if code is None:
        offered = await api.act(MergeCode, "POST", "me", "merges", "code", body={})
        until = instant_text(offered.value.expires_at)
        note = f"enter it in the account that remains, until {until}: who has it gets this account"
        return context.show(offered.document, [offered.value.code], note)
    body = {"code": code}
    preview = (await api.act(MergePreview, "POST", "me", "merges", "preview", body=body)).value
    names = f"{preview.participant} becomes part of {preview.into}"
    if not is_sure:
        if not can_ask():
            raise click.UsageError(f"{names}; cannot ask without a terminal: add --yes")
        if not await confirm(f"{names}: are both accounts yours?"):
            context.screen.note("nothing was done")
            return FAILED
    answer = await api.act(Merge, "POST", "me", "merges", body=body)
    until = instant_text(answer.value.undo_until_at)
    name = answer.value.participant
    note = f"until {until}, warpboard auth unmerge {name} undoes it"
    return context.show(answer.document, [f"{name} is now part of {answer.value.into}"], note)


@api_command("notification list")
async def list_notifications(context: AppContext, api: Api) -> int:
    """List what Discord notifies you of."""
    answer = await api.get(Preferences, *PREFERENCES)
    return context.show(answer.document, _preference_lines(answer.value))


@local_command(
    "notification set overtaken dm",
    parameters=(
        click.argument("event", metavar="EVENT", type=click.Choice(tuple(PREFERENCE_CHOICES))),
        click.argument("how", required=False),
    ),
    access=options.PLATFORM,
)
async def set_notification(context: AppContext, event: str, how: str | None) -> int:
    """Choose HOW Discord notifies you of an EVENT.

    \b
    overtaken, run-finished, deadline-near: off, thread, dm (a direct message)
    ranked-line (announce your results to everybody): on, off
    threads: default (as the server has it), per_submission, per_problem
    licence (of your sources in releases): default, none, or such as MIT
    """
    choices = PREFERENCE_CHOICES[event]
    if how is None or how not in choices:
        mistake = "is missing" if how is None else f"is {how!r}"
        raise click.UsageError(f"HOW for {event} {mistake}: expected one of {', '.join(choices)}")
    async with context.api() as api:
        body = {event.replace("-", "_"): how}
        answer = await api.act(Preferences, "PUT", *PREFERENCES, body=body)
    return context.show(answer.document, _preference_lines(answer.value))


def _preference_lines(preferences: Preferences) -> Iterator[str]:
    for name in PREFERENCE_CHOICES:
        yield f"{name}: {getattr(preferences, name.replace('-', '_'))}"


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


@local_command(
    "login --url https://warpboard.example",
    "login --token - < token.txt",
    parameters=(
        click.option(
            "--token", metavar="-", help="Store the token from stdin instead of requesting one."
        ),
        click.option("--name", metavar="TEXT", help="The token's name; default: this host."),
        click.option(
            *("--browser", "is_opened"),
            is_flag=True,
            help="Open the page in a browser, if this is a terminal.",
        ),
        options.TOKEN_SCOPES,
    ),
    access=options.URL,
)
def login(
    context: AppContext,
    token: str | None,
    name: str | None,
    scopes: Sequence[str],
    *,
    is_opened: bool,
) -> Coroutine[Any, Any, int]:
    """Log in, and store the token.

    It shows a code to enter on the platform's page, and waits until you did.
    """
    client = name or f"warpboard on {platform.node() or 'a machine'}"
    body = {"client_id": client[:CLIENT_LENGTH_MAX], "scope": " ".join(scopes)}
    return _login(context, None if token is None else _read_token(token), body, is_opened)


async def _login(
    context: AppContext, token: str | None, body: Mapping[str, str], is_opened: bool
) -> int:
    url = context.url
    if token is None:
        async with context.connect(url) as api:
            device_login = (await api.act(DeviceLogin, "POST", "auth", "device", body=body)).value
            uri, whole_uri = device_login.verification_uri, device_login.verification_uri_complete
            page = escape_control_characters(uri)
            context.screen.note(f"open {page} and enter the code {device_login.user_code}")
            if whole_uri:
                context.screen.note(f"or open {escape_control_characters(whole_uri)}")
            context.screen.note("allow it only if you started this login yourself")
            # Without a terminal nobody could see the page.
            if is_opened and sys.stderr is not None and sys.stderr.isatty():
                click.launch(whole_uri or uri)
            token = await _wait_for_token(context, api, device_login)
    async with context.connect(url, token=token) as api:
        answer = await api.get(CurrentAccount, "me")
    context.tokens.keep(url, token)
    document = {"url": url, "kept_in": context.tokens.place, **answer.document}
    line = f"logged in to {url} as {answer.value.name}"
    return context.show(document, [line], f"the token is kept in {context.tokens.place}")


def _read_token(value: str) -> str:
    if value != "-":
        reason = "other users can see command lines: --token - reads the token from stdin"
        raise click.UsageError(reason)
    stdin: Any = sys.stdin
    return checked_token(stdin.read(TOKEN_LENGTH_MAX).strip() if stdin else "", "--token")


async def _wait_for_token(context: AppContext, api: Api, login: DeviceLogin) -> str:
    deadline = time.monotonic() + login.expires_in
    pause_s = min(max(login.interval, INTERVAL_S_MIN), INTERVAL_S_MAX)
    with context.screen.live(["login"]) as show:
        while (remaining_s := deadline - time.monotonic()) > 0:
            estimate = f", {seconds_text(remaining_s)} left"
            show("login", ProgressText("waiting for you", estimate=estimate))
            await asyncio.sleep(min(pause_s, remaining_s))
            result = await _poll_grant(api, login)
            if isinstance(result, TokenGrant):
                return result.access_token
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


@api_command("logout", access=options.URL)
async def logout(context: AppContext, api: Api) -> int:
    """Revoke the stored token of a platform, and forget it."""
    url = context.url
    is_revoked = context.tokens.token(url) is not None and await _revoke_token(context, api)
    was_kept = context.tokens.forget(url)
    if was_kept:
        line = f"logged out of {url}" + ("; the token is revoked" if is_revoked else "")
    else:
        line = f"no token of {url} is kept here"
    return context.show({"url": url, "was_kept": was_kept, "is_revoked": is_revoked}, [line])


async def _revoke_token(context: AppContext, api: Api) -> bool:
    try:
        number = (await api.get(CurrentAccount, "me")).value.token
        if number is not None:
            await api.act(RecordedEvent, "DELETE", "tokens", number, body={})
            return True
    except (Refused, Failed) as trouble:
        context.screen.note(f"warpboard: the token could not be revoked there: {trouble}")
    return False
