"""Operators' decisions about submissions, participants and who may do what."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import click
from click import Choice, FloatRange, IntRange

from shared.api.accounts import BanAppeal, Participant
from shared.api.leaderboards import Invite, InviteCodes, Invites
from shared.api.moderation import Decision, Moderation
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    instant_text,
    one_line,
)
from warpboard.domain.tables import Table
from warpboard.service.context import AppContext
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.accounts import issue_token, profile_lines, token_table
from warpboard.terminal.command_types import ActionCommand, api_command
from warpboard.terminal.options import Instant

UNLIMITED = "none"
INVITES_MAX = 10_000
ROLES = ("creator", "moderator", "admin")
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


class AppealDecision(click.ParamType[bool]):
    """The decision on an appeal."""

    name = "decision"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return whether the appeal is accepted."""
        if value not in ("accept", "reject"):
            self.fail(f"{value!r}: expected accept or reject", param, ctx)
        return value == "accept"


NAME = click.argument("name", metavar="PARTICIPANT")
RULE = click.option("--rule", required=True, metavar="TEXT", help="The rule that it breaks.")
DECISION = click.argument("is_accepted", metavar="accept|reject", type=AppealDecision())
ROLE = click.argument("role", type=Choice(ROLES))


@api_command(
    "admin moderation --all",
    parameters=(
        click.option(
            "--all", "is_all", is_flag=True, help="Include decisions that were made already."
        ),
    ),
    access=options.operator_options,
)
async def list_rulings(context: AppContext, api: Api, *, is_all: bool) -> int:
    """List held submissions and open appeals.

    They wait for a decision.
    """
    answer = await api.get(Moderation, "moderation", open=str(not is_all).lower())
    return context.show(answer.document, [ruling_table(answer.value.items)])


def ruling_table(rulings: Sequence[Decision], zone: tzinfo | None = None) -> Table:
    """List decisions about submissions, and submissions that wait for one."""
    rows = [
        (
            str(ruling.number),
            ruling.participant or NO_VALUE,
            f"{ruling.problem} on {ruling.gpu}",
            _ruling_state(ruling),
            one_line(ruling.rule or NO_VALUE, 40),
            one_line(ruling.reason or NO_VALUE, 60),
            ruling.actor or NO_VALUE,
            ruling.appeal or NO_VALUE,
            instant_text(ruling.decided_at, zone),
        )
        for ruling in rulings
    ]
    columns = ("number", "participant", "leaderboard", "is", "rule", "reason", "actor", "appeal")
    return Table("rulings", (*columns, "when"), rows)


def _ruling_state(ruling: Decision) -> str:
    if ruling.is_disqualified:
        return "disqualified"
    if ruling.is_held:
        return "held"
    return "held by rule" if ruling.is_held_by_rule and ruling.decided_at is None else "free"


hold_submission = ActionCommand(
    "POST admin/submissions/{number}/hold",
    "Keep submission NUMBER off its leaderboard until it is reviewed.",
    'admin submission hold 12 --rule "no caching" --reason "it keeps its output"',
    (options.NUMBER, RULE, options.REASON),
)

release_submission = ActionCommand(
    "POST admin/submissions/{number}/release",
    "Release a held submission, so that it is ranked.",
    'admin submission release 12 --reason "it keeps no output"',
    (options.NUMBER, options.REASON),
)

disqualify_submission = ActionCommand(
    "POST admin/submissions/{number}/disqualify",
    "Disqualify submission NUMBER.\n\nThe participant's next best entry counts.",
    'admin submission disqualify 12 --rule "no caching" --reason "it keeps its output"',
    (options.NUMBER, RULE, options.REASON),
)

restore_submission = ActionCommand(
    "POST admin/submissions/{number}/restore",
    "Restore a disqualified submission, so that it is ranked again.",
    'admin submission restore 12 --reason "the rule came later"',
    (options.NUMBER, options.REASON),
)

cancel_submission = ActionCommand(
    "POST submissions/{number}/cancel",
    "Cancel anybody's submission NUMBER and refund its quota.",
    'admin submission cancel 12 --reason "its owner asked us to"',
    (options.NUMBER, options.REASON),
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
        options.REASON,
    ),
)

decide_appeal = ActionCommand(
    "POST admin/submissions/{number}/decide-appeal",
    "Decide the appeal of submission NUMBER; accepting it lifts the ruling.",
    'admin submission decide-appeal 12 accept --reason "line 4 shows it"',
    (
        options.NUMBER,
        DECISION,
        options.REASON,
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
        options.REASON,
    ),
)

create_participant = ActionCommand(
    "POST admin/participants",
    "Create a participant with this name.",
    'admin participant create ada --reason "she asked for an account"',
    (NAME, options.REASON),
)


@api_command(
    "admin participant show ada",
    parameters=(click.argument("name", metavar="PARTICIPANT"),),
    access=options.operator_options,
)
async def show_participant(context: AppContext, api: Api, name: str) -> int:
    """Show a PARTICIPANT: roles, bans, identities and tokens."""
    answer = await api.get(Participant, "admin", "participants", name)
    details = answer.value
    return context.show(answer.document, [*participant_lines(details), token_table(details.tokens)])


def participant_lines(details: Participant) -> Iterator[str]:
    """Describe a participant for operators."""
    yield f"{details.name}, account {details.participant_id}: {', '.join(details.roles)}"
    yield from profile_lines(details)
    if details.ban_appeal is not None:
        yield from _appeal_lines(details.ban_appeal)


def _appeal_lines(appeal: BanAppeal) -> Iterator[str]:
    """Describe an appeal against a ban, and its result.

    >>> from datetime import datetime
    >>> at = datetime(2026, 1, 2)
    >>> appeal = BanAppeal(text="not me", filed_at=at, is_accepted=False, reason="it was")
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


rename_participant = ActionCommand(
    "PUT admin/participants/{participant}/name",
    "Rename a PARTICIPANT.\n\nPARTICIPANT may be an account whose name was lost.",
    'admin participant rename ada lovelace --reason "she asked for it"',
    (
        click.argument("participant", metavar="PARTICIPANT"),
        click.argument("name", metavar="NAME"),
        options.REASON,
    ),
)

ban = ActionCommand(
    "POST admin/participants/{name}/ban",
    "Ban a participant, and take them off every leaderboard.",
    'admin participant ban mallory --until 2027-01-01T00:00:00Z --reason "shared accounts"',
    (
        NAME,
        click.option("--until", "until_at", type=Instant(), help="Default: for ever."),
        options.REASON,
    ),
)

unban = ActionCommand(
    "POST admin/participants/{name}/unban",
    "Lift a participant's ban.",
    'admin participant unban mallory --reason "it was somebody else"',
    (NAME, options.REASON),
)

decide_ban_appeal = ActionCommand(
    "POST admin/participants/{name}/decide-appeal",
    "Decide the appeal of a banned PARTICIPANT; accepting it ends the ban.",
    'admin participant decide-appeal ada accept --reason "it was her brother"',
    (
        NAME,
        DECISION,
        options.REASON,
    ),
)

grant_role = ActionCommand(
    "POST admin/participants/{name}/roles",
    "Give a participant a role.\n\nA creator publishes problems; a moderator and an admin operate.",
    'admin role grant ada creator --reason "she writes problems"',
    (NAME, ROLE, options.REASON),
)

revoke_role = ActionCommand(
    "DELETE admin/participants/{name}/roles/{role}",
    "Take a role from a participant.",
    'admin role revoke ada creator --reason "the contest is over"',
    (NAME, ROLE, options.REASON),
)


@api_command(
    'admin token create ada --name laptop --reason "she lost her own"',
    parameters=(
        click.argument("participant"),
        click.option("--name", required=True, metavar="TEXT", help="The token's name."),
        options.TOKEN_SCOPES,
        click.option(
            "--days", "expires_in_days", type=IntRange(1, 365), default=90, show_default=True
        ),
        options.REASON,
    ),
    access=options.operator_options,
)
async def create_token(context: AppContext, api: Api, **body: object) -> int:
    """Issue a token for a PARTICIPANT.

    It is shown only once.
    """
    return await issue_token(context, api, "admin", "tokens", body=body)


revoke_token = ActionCommand(
    "DELETE admin/tokens/{number}",
    "Revoke anybody's token NUMBER.",
    'admin token revoke 31 --reason "it was in a public file"',
    (options.NUMBER, options.REASON),
)

link_identity = ActionCommand(
    "POST admin/participants/{name}/identities",
    "Link SUBJECT at a provider to this participant.",
    'admin identity link ada github 583231 --reason "she showed her passport"',
    (
        NAME,
        click.argument("provider", type=Choice(PROVIDERS)),
        click.argument("subject"),
        options.REASON,
    ),
)

unlink_identity = ActionCommand(
    "DELETE admin/participants/{name}/identities/{identity}",
    "Unlink an IDENTITY from a participant.\n\n`admin participant show` lists them.",
    'admin identity unlink ada 01HZX3 --reason "it was sold"',
    (NAME, click.argument("identity"), options.REASON),
)

archive_leaderboards = ActionCommand(
    "POST admin/leaderboards/{slug}/archive",
    "Archive a problem's leaderboards.\n\nThey accept nothing any more and stay readable.",
    'admin leaderboard archive matmul --reason "the contest is over"',
    (click.argument("slug", type=options.SLUG, metavar="PROBLEM"), options.REASON),
)


@api_command(
    'admin invite create matmul --count 30 --reason "a class" > codes.txt',
    parameters=(
        click.argument(
            "leaderboards", metavar="PROBLEM...", nargs=-1, required=True, type=options.SLUG
        ),
        click.option(
            "--count", type=IntRange(1, INVITES_MAX), default=1, show_default=True, help="How many."
        ),
        click.option("--expires-at", type=Instant(), help="Default: never."),
        options.REASON,
    ),
    access=options.operator_options,
)
async def create_invites(context: AppContext, api: Api, **fields: object) -> int:
    """Issue invites to closed leaderboards.

    Each is for one participant. Prints one code per line.
    """
    body = {name: value for name, value in fields.items() if value is not None}
    answer = await api.act(InviteCodes, "POST", "admin", "invites", body=body)
    created = answer.value
    count = count_text(len(created.codes), "invite")
    note = f"{count} to {', '.join(created.leaderboards)}; each opens once"
    return context.show(answer.document, created.codes, note)


@api_command(
    "admin invite list matmul",
    parameters=(click.argument("leaderboard", metavar="PROBLEM", type=options.SLUG),),
    access=options.operator_options,
)
async def list_invites(context: AppContext, api: Api, leaderboard: str) -> int:
    """List the invites to a problem's leaderboards.

    It also shows who accepted them.
    """
    answer = await api.get(Invites, "admin", "leaderboards", leaderboard, "invites")
    return context.show(answer.document, [invite_table(leaderboard, answer.value.items)])


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


revoke_invite = ActionCommand(
    "DELETE admin/invites/{code}",
    "Revoke an invite.",
    'admin invite revoke 3p8uCz0wq1mVYk2nqkq1Jw --reason "it was posted"',
    (click.argument("code"), options.REASON),
)
