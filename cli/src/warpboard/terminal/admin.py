"""Operators' decisions about submissions, participants and who may do what."""

from typing import Any

import click
from click import Choice, FloatRange, IntRange

from warpboard.service import accounts, moderation
from warpboard.service.accounts import ROLES
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget
from warpboard.terminal.options import Instant

UNLIMITED = "none"
INVITES_MAX = 10_000
PROVIDERS = ("discord", "github", "web")


class Limit(click.ParamType[int | None]):
    """The limit of a quota: a number, or `none` for no limit."""

    name = "limit"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """Return the number, None for no limit."""
        if value == UNLIMITED:
            return None
        if not value.isdecimal():
            self.fail(f"{value!r}: expected a number, or {UNLIMITED} for no limit", param, ctx)
        return int(value)


class Decision(click.ParamType[bool]):
    """The decision on an appeal."""

    name = "decision"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return whether the appeal is accepted."""
        if value not in ("accept", "reject"):
            self.fail(f"{value!r}: expected accept or reject", param, ctx)
        return value == "accept"


NAME = click.argument("name", metavar="PARTICIPANT")
RULE = click.option("--rule", required=True, metavar="TEXT", help="The rule that it breaks.")
DECISION = click.argument("is_accepted", metavar="accept|reject", type=Decision())
ROLE = click.argument("role", type=Choice(ROLES))

list_rulings = ApiCommand(
    moderation.list_rulings,
    "List held submissions and open appeals.\n\nThey wait for a decision.",
    "admin moderation --all",
    (
        click.option(
            "--all", "is_all", is_flag=True, help="Include decisions that were made already."
        ),
    ),
    access=options.operator_options,
)

hold_submission = ActionCommand(
    "POST admin/submissions/{number}/hold",
    "Keep submission NUMBER off its leaderboard until it is reviewed.",
    'admin submission hold 12 --rule "no caching" --reason "it keeps its output"',
    (options.number, RULE, options.reason),
)

release_submission = ActionCommand(
    "POST admin/submissions/{number}/release",
    "Release a held submission, so that it is ranked.",
    'admin submission release 12 --reason "it keeps no output"',
    (options.number, options.reason),
)

disqualify_submission = ActionCommand(
    "POST admin/submissions/{number}/disqualify",
    "Disqualify submission NUMBER.\n\nThe participant's next best entry counts.",
    'admin submission disqualify 12 --rule "no caching" --reason "it keeps its output"',
    (options.number, RULE, options.reason),
)

restore_submission = ActionCommand(
    "POST admin/submissions/{number}/restore",
    "Restore a disqualified submission, so that it is ranked again.",
    'admin submission restore 12 --reason "the rule came later"',
    (options.number, options.reason),
)

cancel_submission = ActionCommand(
    "POST submissions/{number}/cancel",
    "Cancel anybody's submission NUMBER and refund its quota.",
    'admin submission cancel 12 --reason "its owner asked us to"',
    (options.number, options.reason),
)

duel = ActionCommand(
    "POST admin/duels",
    "Time submissions FIRST and SECOND of one leaderboard in alternation.\n\n"
    "If they are tied, the faster one ranks first. It costs nobody's quota.",
    'admin submission duel 47 12 --reason "they look alike"',
    (
        click.argument("first", type=IntRange(min=1)),
        click.argument("second", type=IntRange(min=1)),
        click.option("--gpu", type=options.GPU, help="Refuse submissions of other GPU types."),
        options.reason,
    ),
)

decide_appeal = ActionCommand(
    "POST admin/submissions/{number}/decide-appeal",
    "Decide the appeal of submission NUMBER; accepting it lifts the ruling.",
    'admin submission decide-appeal 12 accept --reason "line 4 shows it"',
    (
        options.number,
        DECISION,
        options.reason,
    ),
)

set_quota = ActionCommand(
    "PUT admin/quota",
    "Limit the submissions of a participant, or of everybody.\n\n"
    "The limit is a number of submissions per window. "
    "BUCKET is PROBLEM.GPU.CATEGORY; each part may be *. CATEGORY is test or ranked.",
    'admin quota set "matmul.*.ranked" --limit 10 --window 86400 --reason "a long queue"',
    (
        click.argument("bucket"),
        click.option("--limit", type=Limit(), required=True, metavar="N|none", help="How many."),
        click.option(
            *("--window", "window_s"),
            type=FloatRange(1, 31_622_400),
            default=86_400.0,
            show_default=True,
            metavar="SECONDS",
            help="The length of the window.",
        ),
        click.option("--participant", metavar="NAME", help="Default: everybody."),
        options.reason,
    ),
)

create_participant = ActionCommand(
    "POST admin/participants",
    "Create a participant with this name.",
    'admin participant create ada --reason "she asked for an account"',
    (NAME, options.reason),
)

show_participant = ApiCommand(
    accounts.show_participant,
    "Show a PARTICIPANT: roles, bans, identities and tokens.",
    "admin participant show ada",
    (click.argument("participant_name", metavar="PARTICIPANT"),),
    access=options.operator_options,
)

rename_participant = ActionCommand(
    "PUT admin/participants/{participant}/name",
    "Rename a PARTICIPANT.\n\nPARTICIPANT may be an account whose name was lost.",
    'admin participant rename ada lovelace --reason "she asked for it"',
    (
        click.argument("participant", metavar="PARTICIPANT"),
        click.argument("name", metavar="NAME"),
        options.reason,
    ),
)

ban = ActionCommand(
    "POST admin/participants/{name}/ban",
    "Ban a participant, and take them off every leaderboard.",
    'admin participant ban mallory --until 2027-01-01T00:00:00Z --reason "shared accounts"',
    (
        NAME,
        click.option("--until", "until_at", type=Instant(), help="Default: for ever."),
        options.reason,
    ),
)

unban = ActionCommand(
    "POST admin/participants/{name}/unban",
    "Lift a participant's ban.",
    'admin participant unban mallory --reason "it was somebody else"',
    (NAME, options.reason),
)

decide_ban_appeal = ActionCommand(
    "POST admin/participants/{name}/decide-appeal",
    "Decide the appeal of a banned PARTICIPANT; accepting it ends the ban.",
    'admin participant decide-appeal ada accept --reason "it was her brother"',
    (
        NAME,
        DECISION,
        options.reason,
    ),
)

grant_role = ActionCommand(
    "POST admin/participants/{name}/roles",
    "Give a participant a role.\n\nA creator publishes problems; a moderator and an admin operate.",
    'admin role grant ada creator --reason "she writes problems"',
    (NAME, ROLE, options.reason),
)

revoke_role = ActionCommand(
    "DELETE admin/participants/{name}/roles/{role}",
    "Take a role from a participant.",
    'admin role revoke ada creator --reason "the contest is over"',
    (NAME, ROLE, options.reason),
)


@click.command()
@click.argument("participant")
@click.option("--name", required=True, metavar="TEXT", help="The token's name.")
@options.scopes
@click.option("--days", "expires_in_days", type=IntRange(1, 365), default=90, show_default=True)
@options.reason
@options.as_json
@options.operator_options
@options.pass_app
def create_token(
    context: AppContext, /, place: PlatformTarget, *, as_json: bool, **fields: Any
) -> int:
    """Issue a token for a PARTICIPANT.

    It is shown only once.

    \b
    Example:
      warpboard admin token create ada --name laptop --reason "she lost her own"
    """
    body = fields | {"scopes": list(fields["scopes"])}
    return context.operate(
        place,
        lambda api: accounts.create_token(api, context.screen, body, ("admin", "tokens"), as_json),
    )


revoke_token = ActionCommand(
    "DELETE admin/tokens/{number}",
    "Revoke anybody's token NUMBER.",
    'admin token revoke 31 --reason "it was in a public file"',
    (options.number, options.reason),
)

link_identity = ActionCommand(
    "POST admin/participants/{name}/identities",
    "Link SUBJECT at a provider to this participant.",
    'admin identity link ada github 583231 --reason "she showed her passport"',
    (
        NAME,
        click.argument("provider", type=Choice(PROVIDERS)),
        click.argument("subject"),
        options.reason,
    ),
)

unlink_identity = ActionCommand(
    "DELETE admin/participants/{name}/identities/{identity}",
    "Unlink an IDENTITY from a participant.\n\n`admin participant show` lists them.",
    'admin identity unlink ada 01HZX3 --reason "it was sold"',
    (NAME, click.argument("identity"), options.reason),
)

archive_leaderboards = ActionCommand(
    "POST admin/leaderboards/{slug}/archive",
    "Archive a problem's leaderboards.\n\nThey accept nothing any more and stay readable.",
    'admin leaderboard archive matmul --reason "the contest is over"',
    (click.argument("slug", type=options.SLUG, metavar="PROBLEM"), options.reason),
)


@click.command()
@click.argument("leaderboards", metavar="PROBLEM...", nargs=-1, required=True, type=options.SLUG)
@click.option(
    "--count", type=IntRange(1, INVITES_MAX), default=1, show_default=True, help="How many."
)
@click.option("--expires-at", type=Instant(), help="Default: never.")
@options.reason
@options.as_json
@options.operator_options
@options.pass_app
def create_invites(
    context: AppContext, /, place: PlatformTarget, *, as_json: bool, **fields: Any
) -> int:
    """Issue invites to closed leaderboards.

    Each is for one participant. Prints one code per line.

    \b
    Example:
      warpboard admin invite create matmul --count 30 --reason "a class" > codes.txt
    """
    body = {name: value for name, value in fields.items() if value is not None}
    body["leaderboards"] = list(body["leaderboards"])
    return context.operate(
        place, lambda api: accounts.create_invites(api, context.screen, body, as_json=as_json)
    )


list_invites = ApiCommand(
    accounts.list_invites,
    "List the invites to a problem's leaderboards.\n\nIt also shows who accepted them.",
    "admin invite list matmul",
    (click.argument("leaderboard", metavar="PROBLEM", type=options.SLUG),),
    access=options.operator_options,
)

revoke_invite = ActionCommand(
    "DELETE admin/invites/{code}",
    "Revoke an invite.",
    'admin invite revoke 3p8uCz0wq1mVYk2nqkq1Jw --reason "it was posted"',
    (click.argument("code"), options.reason),
)
