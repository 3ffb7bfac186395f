"""Commands that log in and out; the token is stored for the platform."""

import asyncio
import platform
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import click
import msgspec

from shared.api.accounts import CurrentAccount
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import escape_control_characters, seconds_text
from warpboard.api import Api, Unavailable
from warpboard.context import AppContext, RecordedEvent
from warpboard.domain.names import checked_token
from warpboard.terminal import options
from warpboard.terminal.command_types import api_command, local_command

TOKEN_LENGTH_MAX = 1024
CLIENT_LENGTH_MAX = 64
INTERVAL_S_MIN, INTERVAL_S_MAX = 0.2, 60.0
# Source: RFC 8628, section 3.5.
SLOWER_S = 5.0
WAITING, SLOW_DOWN = "authorization_pending", "slow_down"
ENDS = {"expired_token": "the code is too old", "access_denied": "it was not allowed"}


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
