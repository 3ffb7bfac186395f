"""Operators' commands for who may do what: roles, tokens, leaderboards, invites."""

from typing import Any

import click
from click import Choice, IntRange

from warpboard.domain.accounts import ROLES, SCOPES, SCOPES_KNOWN
from warpboard.service import identity
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.boards import changing
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.deeds import Shape
from warpboard.terminal.desk import Desk, Place
from warpboard.terminal.moderation import Decision
from warpboard.terminal.options import Instant

INVITES_MAX = 10_000
PROVIDERS = ("discord", "github", "web")
GROUPS = {
    "participant": "Let somebody in by name, look at what is known of them.",
    "identity": "Say who a participant is elsewhere.",
    "role": "Say who may publish, moderate and operate.",
    "token": "Make tokens for participants.",
    "leaderboard": "Open and close a problem's leaderboards, move their deadline.",
    "invite": "Hand out invites to closed leaderboards.",
}

NAME = click.argument("name", metavar="PARTICIPANT")
SLUG = click.argument("slug", type=PROBLEM, metavar="PROBLEM")
ROLE = click.argument("role", type=Choice(ROLES))

SHAPES = (
    Shape(
        "admin participant create",
        "admin/participants",
        "Let a participant in by a name of their own.",
        'ada --reason "she asked at the desk"',
        (NAME, options.reason),
    ),
    Shape(
        "admin participant rename",
        "admin/participants/{participant}/name",
        "Give a PARTICIPANT another NAME, or one to an account whose name was lost.",
        'ada lovelace --reason "she asked for it"',
        (
            click.argument("participant", metavar="PARTICIPANT"),
            click.argument("name", metavar="NAME"),
            options.reason,
        ),
        method="PUT",
    ),
    Shape(
        "admin participant decide-appeal",
        "admin/participants/{name}/decide-appeal",
        "Answer the appeal of a PARTICIPANT who is banned; an accepted one ends the ban.",
        'ada accept --reason "it was her brother"',
        (
            NAME,
            click.argument("is_accepted", metavar="accept|reject", type=Decision()),
            options.reason,
        ),
    ),
    Shape(
        "admin role grant",
        "admin/participants/{name}/roles",
        "Give a participant a role: creator publishes problems, moderator and admin operate.",
        'ada creator --reason "she writes problems"',
        (NAME, ROLE, options.reason),
    ),
    Shape(
        "admin role revoke",
        "admin/participants/{name}/roles/{role}",
        "Take a role from a participant.",
        'ada creator --reason "the contest is over"',
        (NAME, ROLE, options.reason),
        method="DELETE",
    ),
    Shape(
        "admin token revoke",
        "admin/tokens/{number}",
        "Let anybody's token NUMBER open nothing any more.",
        '31 --reason "it was in a public file"',
        (options.number, options.reason),
        method="DELETE",
    ),
    Shape(
        "admin identity link",
        "admin/participants/{name}/identities",
        "Let who is SUBJECT at a provider be this participant from now on.",
        'ada github 583231 --reason "she showed her passport"',
        (
            NAME,
            click.argument("provider", type=Choice(PROVIDERS)),
            click.argument("subject"),
            options.reason,
        ),
    ),
    Shape(
        "admin identity unlink",
        "admin/participants/{name}/identities/{identity}",
        "Let an IDENTITY be a participant's no longer; `admin participant show` names it.",
        'ada 01HZX3 --reason "it was sold"',
        (NAME, click.argument("identity"), options.reason),
        method="DELETE",
    ),
    Shape(
        "admin leaderboard archive",
        "admin/leaderboards/{slug}/archive",
        "Let a problem's leaderboards take nothing more, for ever; they can still be read.",
        'matmul --reason "the contest is over"',
        (SLUG, options.reason),
    ),
    Shape(
        "admin invite revoke",
        "admin/invites/{code}",
        "Let an invite open nothing any more.",
        '3p8uCz0wq1mVYk2nqkq1Jw --reason "it was posted"',
        (click.argument("code"), options.reason),
        method="DELETE",
    ),
)


@click.command(name="show")
@NAME
@options.as_json
@options.office
@click.pass_obj
def show_participant(desk: Desk, /, place: Place, name: str, *, as_json: bool) -> int:
    """Show what is known of a PARTICIPANT: roles, bans, identities, tokens.

    \b
    Example:
      warpboard admin participant show ada
    """
    return desk.operate(
        place, lambda api: identity.participant(api, desk.screen, name, as_json=as_json)
    )


@click.command(name="create")
@click.argument("participant")
@click.option("--name", required=True, metavar="TEXT", help="What the token is called.")
@click.option(
    *("--scope", "scopes"),
    type=click.Choice(SCOPES_KNOWN),
    multiple=True,
    default=SCOPES,
    metavar="SCOPE",
    help="What it may be used for; may be repeated. Else all that participants do.",
)
@click.option("--days", "expires_in_days", type=IntRange(1, 365), default=90, show_default=True)
@options.reason
@options.as_json
@options.office
@click.pass_obj
def create_token(desk: Desk, /, place: Place, *, as_json: bool, **said: Any) -> int:
    """Make a token for a PARTICIPANT; it is shown this once.

    \b
    Example:
      warpboard admin token create ada --name laptop --reason "she lost her own"
    """
    body = said | {"scopes": list(said["scopes"])}
    return desk.operate(
        place, lambda api: identity.create(api, desk.screen, body, ("admin", "tokens"), as_json)
    )


@click.command(name="change")
@changing
@options.as_json
@options.office
@click.pass_obj
def change_leaderboard(desk: Desk, /, place: Place, *, deed: Deed, as_json: bool) -> int:
    """Change a problem's leaderboards: who sees them, deadline, GPU types, quotas.

    What is not said stays. `problem settings` shows what they are set to.

    \b
    Example:
      warpboard admin leaderboard change matmul --visibility closed --reason "a class"
      warpboard admin leaderboard change matmul --deadline 2027-01-31T23:00:00Z --reason "longer"
    """
    return desk.operate(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@click.command(name="create")
@click.argument("leaderboards", metavar="PROBLEM...", nargs=-1, required=True, type=PROBLEM)
@click.option(
    "--count", type=IntRange(1, INVITES_MAX), default=1, show_default=True, help="How many."
)
@click.option("--expires-at", type=Instant(), help="Never if not given.")
@options.reason
@options.as_json
@options.office
@click.pass_obj
def create_invites(desk: Desk, /, place: Place, *, as_json: bool, **said: Any) -> int:
    """Make invites to closed leaderboards, each for one participant; codes are lines.

    \b
    Example:
      warpboard admin invite create matmul --count 30 --reason "a class" > codes.txt
    """
    body = {name: value for name, value in said.items() if value is not None}
    body["leaderboards"] = list(body["leaderboards"])
    return desk.operate(place, lambda api: identity.invite(api, desk.screen, body, as_json=as_json))


@click.command(name="list")
@click.argument("leaderboard", metavar="PROBLEM", type=PROBLEM)
@options.as_json
@options.office
@click.pass_obj
def list_invites(desk: Desk, /, place: Place, leaderboard: str, *, as_json: bool) -> int:
    """List the invites to a problem's leaderboards, and who took them.

    \b
    Example:
      warpboard admin invite list matmul
    """
    return desk.operate(
        place, lambda api: identity.invites(api, desk.screen, leaderboard, as_json=as_json)
    )


COMMANDS = {
    "admin participant": (show_participant,),
    "admin token": (create_token,),
    "admin leaderboard": (change_leaderboard,),
    "admin invite": (create_invites, list_invites),
}
