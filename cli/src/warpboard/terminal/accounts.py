"""Commands for your account: login and logout, tokens, identities and notifications."""

import platform
import sys
from typing import Any

import click
from click import IntRange

from warpboard.domain.names import checked_token
from warpboard.service import accounts
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget, run

TOKEN_LENGTH_MAX = 1024
CLIENT_LENGTH_MAX = 64
DAYS_MAX = 365


def _read_token(value: str | None) -> str | None:
    """Return the token from stdin if `-` is given."""
    if value is None:
        return None
    if value != "-":
        reason = "other users can see command lines: --token - reads the token from stdin"
        raise click.UsageError(reason)
    stdin: Any = sys.stdin
    return checked_token(stdin.read(TOKEN_LENGTH_MAX).strip() if stdin else "", "--token")


def _open_page(address: str) -> None:
    """Open a page in a browser; without a terminal nobody could see it."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.launch(address)


def _skip_page(address: str) -> None:
    """Do not open a page; its address is printed."""


@click.command()
@click.option("--token", metavar="-", help="Store the token from stdin instead of requesting one.")
@click.option("--name", "client", metavar="TEXT", help="The token's name; default: this host.")
@click.option(
    "--browser",
    "is_opened",
    is_flag=True,
    help="Open the page in a browser, if this is a terminal.",
)
@options.scopes
@options.as_json
@options.url_options
@options.pass_app
def login(
    context: AppContext, /, place: PlatformTarget, *, as_json: bool, is_opened: bool, **values: Any
) -> int:
    """Log in, and store the token.

    It shows a code to enter on the platform's page, and waits until you did.

    \b
    Example:
      warpboard login --url https://warpboard.example
      warpboard login --token - < token.txt
    """
    client = values["client"] or f"warpboard on {platform.node() or 'a machine'}"
    token = _read_token(values["token"])
    login_options = accounts.LoginOptions(
        context.url(place), client[:CLIENT_LENGTH_MAX], values["scopes"], token
    )
    login_context = accounts.LoginContext(
        context.connect, context.keys, context.screen, _open_page if is_opened else _skip_page
    )
    return run(accounts.login(login_context, login_options, as_json=as_json))


@click.command()
@options.as_json
@options.url_options
@options.pass_app
def logout(context: AppContext, /, place: PlatformTarget, *, as_json: bool) -> int:
    """Revoke the stored token of a platform, and forget it.

    \b
    Example:
      warpboard logout
    """
    url = context.url(place)
    return context.ask(
        place, lambda api: accounts.logout(api, context.keys, context.screen, url, as_json=as_json)
    )


@click.command()
@options.as_json
@options.platform_options
@options.pass_app
def show_account(context: AppContext, /, place: PlatformTarget, *, as_json: bool) -> int:
    """Show the current account and its permissions.

    \b
    Example:
      warpboard auth status --json
    """
    url = context.url(place)
    return context.ask(
        place, lambda api: accounts.whoami(api, context.screen, url, as_json=as_json)
    )


list_tokens = ApiCommand(
    accounts.list_tokens,
    "List your tokens, and when each was last used.",
    "auth token list",
)


@click.command()
@click.argument("name")
@click.option(
    *("--days", "expires_in_days"),
    type=IntRange(1, DAYS_MAX),
    default=90,
    show_default=True,
    help="How many days it is valid.",
)
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="SLUG",
    help="Only valid for this problem; may be repeated.",
)
@options.scopes
@options.as_json
@options.platform_options
@options.pass_app
def create_token(
    context: AppContext, /, place: PlatformTarget, *, as_json: bool, **fields: Any
) -> int:
    """Issue a token called NAME; it is shown only once.

    It is for a program that submits, for example.

    \b
    Example:
      warpboard auth token create tuner --scope submit --scope read:own --days 7
    """
    body = {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
    if not body["problems"]:
        del body["problems"]
    return context.ask(
        place, lambda api: accounts.create_token(api, context.screen, body, ("tokens",), as_json)
    )


revoke_token = ActionCommand(
    "DELETE tokens/{number}",
    "Revoke your token NUMBER; it stops working within a second.",
    "auth token revoke 31",
    (options.number,),
    access=options.platform_options,
)

unlink = ApiCommand(
    accounts.unlink,
    "Remove an IDENTITY from your account.\n\n"
    "Nobody can log in with it any more. `auth status` lists your identities.",
    "auth unlink github:583231",
    (click.argument("identity_name", metavar="IDENTITY"),),
)

appeal_ban = ActionCommand(
    "POST me/appeal",
    "Appeal your ban.",
    'auth appeal "the other account is my brother\'s"',
    (click.argument("text"),),
    access=options.platform_options,
)


@click.command()
@options.as_json
@options.platform_options
@options.pass_app
def list_notifications(context: AppContext, /, place: PlatformTarget, *, as_json: bool) -> int:
    """List what Discord notifies you of.

    \b
    Example:
      warpboard notification list
    """
    return context.ask(
        place,
        lambda api: accounts.update_preferences(api, context.screen, None, as_json=as_json),
    )


@click.command()
@click.argument("event", metavar="EVENT", type=click.Choice(tuple(accounts.PREFERENCE_CHOICES)))
@click.argument("how", required=False)
@options.as_json
@options.platform_options
@options.pass_app
def set_notification(
    context: AppContext, /, place: PlatformTarget, event: str, how: str | None, *, as_json: bool
) -> int:
    """Choose HOW Discord notifies you of an EVENT.

    \b
    overtaken, run-finished, deadline-near: off, thread, dm (a direct message)
    ranked-line (announce your results to everybody): on, off
    threads: default (as the server has it), per_submission, per_problem

    \b
    Example:
      warpboard notification set overtaken dm
    """
    choices = accounts.PREFERENCE_CHOICES[event]
    if how is None or how not in choices:
        mistake = "is missing" if how is None else f"is {how!r}"
        raise click.UsageError(f"HOW for {event} {mistake}: expected one of {', '.join(choices)}")
    return context.ask(
        place,
        lambda api: accounts.update_preferences(api, context.screen, (event, how), as_json=as_json),
    )
