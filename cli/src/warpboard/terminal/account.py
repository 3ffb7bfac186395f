"""What people do about who they are: log in and out, look after their tokens, join."""

import platform
import sys
from collections.abc import Callable
from typing import Any

import click

from shared.errors import Refused
from warpboard.domain.accounts import SCOPES, SCOPES_KNOWN
from warpboard.domain.names import checked_token
from warpboard.service import identity, notifying
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run

TOKEN_LENGTH_MAX = 1024
CLIENT_LENGTH_MAX = 64
DAYS_MAX = 365


def _scopes(default: tuple[str, ...]) -> Callable[[Any], Any]:
    return click.option(
        *("--scope", "scopes"),
        type=click.Choice(SCOPES_KNOWN),
        multiple=True,
        default=default,
        metavar="SCOPE",
        help="What the token may be used for; may be repeated. Else all that participants do.",
    )


def _given(said: str | None) -> str | None:
    """The token on stdin, where `-` asks for it."""
    if said is None:
        return None
    if said != "-":
        what = "what is on a command line is seen by others: --token - reads the token from stdin"
        raise click.UsageError(what)
    stdin: Any = sys.stdin
    return checked_token(stdin.read(TOKEN_LENGTH_MAX).strip() if stdin else "", "--token")


def _opened(address: str) -> None:
    """Show a page in a browser; without a terminal nobody sits here who could see it."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.launch(address)


def _left(address: str) -> None:
    """Leave it to the person: the address is printed."""


@click.command()
@click.option("--token", metavar="-", help="Keep the token on stdin instead of asking for one.")
@click.option("--name", "client", metavar="TEXT", help="What the token is called; else this host.")
@click.option("--browser", "is_opened", is_flag=True, help="Open the page, if this is a terminal.")
@_scopes(SCOPES)
@options.as_json
@options.here
@click.pass_obj
def login(desk: Desk, /, place: Place, *, as_json: bool, is_opened: bool, **asked: Any) -> int:
    """Log in: shows a code to enter on the platform's page, and keeps the token it gets.

    \b
    Example:
      warpboard login --url https://warpboard.example
      warpboard login --token - < token.txt
    """
    client = asked["client"] or f"warpboard on {platform.node() or 'a machine'}"
    token = _given(asked["token"])
    wanted = identity.Login(desk.url(place), client[:CLIENT_LENGTH_MAX], asked["scopes"], token)
    at = identity.Desk(desk.connect, desk.keys, desk.screen, _opened if is_opened else _left)
    return run(identity.login(at, wanted, as_json=as_json))


@click.command()
@options.as_json
@options.here
@click.pass_obj
def logout(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """Revoke the token that is kept of a platform, and keep it no more.

    \b
    Example:
      warpboard logout
    """
    url = desk.url(place)
    return desk.ask(
        place, lambda api: identity.logout(api, desk.keys, desk.screen, url, as_json=as_json)
    )


@click.command()
@options.as_json
@options.place
@click.pass_obj
def whoami(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """Show whom the platform takes you for, and what you may do.

    \b
    Example:
      warpboard whoami --json
    """
    url = desk.url(place)
    return desk.ask(place, lambda api: identity.whoami(api, desk.screen, url, as_json=as_json))


@click.group(cls=options.Group)
def token() -> None:
    """Make, list and revoke your tokens."""


@token.command(name="list")
@options.as_json
@options.place
@click.pass_obj
def list_tokens(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List your tokens: their names, their first characters, when each was used.

    \b
    Example:
      warpboard token list
    """
    return desk.ask(place, lambda api: identity.tokens(api, desk.screen, as_json=as_json))


@token.command(name="create")
@click.argument("name")
@click.option(
    *("--days", "expires_in_days"),
    type=click.IntRange(1, DAYS_MAX),
    default=90,
    show_default=True,
    help="For how long it is good.",
)
@click.option("--problem", "problems", multiple=True, metavar="SLUG", help="Good for it alone.")
@_scopes(SCOPES)
@options.as_json
@options.place
@click.pass_obj
def create_token(desk: Desk, /, place: Place, *, as_json: bool, **said: Any) -> int:
    """Make a token called NAME, such as for a program that submits; it is shown this once.

    \b
    Example:
      warpboard token create tuner --scope submit --scope read:own --days 7
    """
    body = {name: list(one) if isinstance(one, tuple) else one for name, one in said.items()}
    if not body["problems"]:
        del body["problems"]
    return desk.ask(
        place, lambda api: identity.create(api, desk.screen, body, ("tokens",), as_json)
    )


@token.command(name="revoke")
@click.argument("number", type=click.IntRange(min=1))
@options.as_json
@options.place
@click.pass_obj
def revoke_token(desk: Desk, /, place: Place, number: int, *, as_json: bool) -> int:
    """Let your token NUMBER open nothing any more, within a second.

    \b
    Example:
      warpboard token revoke 31
    """
    deed = Deed("DELETE", ("tokens", number), {})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@click.command()
@click.argument("code")
@options.as_json
@options.place
@click.pass_obj
def join(desk: Desk, /, place: Place, code: str, *, as_json: bool) -> int:
    """Take up the invite CODE to closed leaderboards; `-` reads it from stdin.

    \b
    Example:
      warpboard join 3p8uCz0wq1mVYk2nqkq1Jw
    """
    stdin: Any = sys.stdin
    said = stdin.readline(TOKEN_LENGTH_MAX).strip() if code == "-" and stdin else code
    if not said:
        raise Refused("invalid_invite", "no code came on stdin", "code")
    return desk.ask(place, lambda api: identity.join(api, desk.screen, said, as_json=as_json))


@click.command()
@click.argument("identity_", metavar="IDENTITY")
@options.as_json
@options.place
@click.pass_obj
def unlink(desk: Desk, /, place: Place, identity_: str, *, as_json: bool) -> int:
    """Be known no longer as an IDENTITY of yours, which `whoami` names: nobody logs in by it.

    \b
    Example:
      warpboard unlink github:583231
    """
    return desk.ask(
        place, lambda api: identity.unlink(api, desk.screen, identity_, as_json=as_json)
    )


@click.command()
@click.argument("event", type=click.Choice(tuple(notifying.CHOICES)), required=False)
@click.argument("how", required=False)
@options.as_json
@options.place
@click.pass_obj
def notify(
    desk: Desk, /, place: Place, event: str | None, how: str | None, *, as_json: bool
) -> int:
    """Choose HOW you are told of an EVENT on Discord; without them, show what you chose.

    \b
    overtaken, run-finished, deadline-near: off, thread, dm (a letter)
    ranked-line (your results, for everybody): on, off
    threads: default (as the server has it), per_submission, per_problem

    \b
    Example:
      warpboard notify
      warpboard notify overtaken dm
    """
    known = notifying.CHOICES.get(event or "", ())
    if event is not None and how not in known:
        said = "is not said" if how is None else f"is not {how!r}"
        raise click.UsageError(f"how you are told of {event} {said}: {', '.join(known)}")
    wanted = None if event is None or how is None else (event, how)
    return desk.ask(place, lambda api: notifying.notify(api, desk.screen, wanted, as_json=as_json))


COMMANDS = (login, logout, whoami, token, unlink, join, notify)
