"""Operators' commands that show something: rulings, participants, invites and dead letters."""

from collections.abc import Iterator, Sequence

import click
from click import IntRange

from shared.api.accounts import Participant, PasswordResetLink
from shared.api.evaluations import EvaluationUses
from shared.api.leaderboards import Invite, InviteCodes, Invites
from shared.api.moderation import Decision, Moderation
from shared.api.queues import DeadLetter, DeadLetters
from shared.errors import Refused
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    instant_text,
    one_line,
)
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import Table, make_table
from warpboard.terminal import options
from warpboard.terminal.accounts import issue_token, profile_lines, token_table
from warpboard.terminal.options import api_command

INVITES_MAX = 10_000


@api_command(
    "admin moderation --all",
    parameters=(
        click.option(
            "--all", "is_all", is_flag=True, help="Include decisions that were made already."
        ),
        options.WIDE,
    ),
    access=options.OPERATOR,
)
async def list_rulings(context: AppContext, api: Api, *, is_all: bool) -> int:
    """List held submissions and open appeals.

    They wait for a decision.
    """
    answer = await api.get(Moderation, "moderation", open=str(not is_all).lower())
    return context.show(answer.document, [ruling_table(answer.value.items)])


@api_command("problem held", parameters=(options.WIDE,), access=options.PLATFORM)
async def list_held(context: AppContext, api: Api) -> int:
    """List the held submissions to your problems.

    `problem release` ends a hold, unless a moderator holds the submission.
    """
    answer = await api.get(Moderation, "moderation", open="true", authored="true")
    return context.show(answer.document, [ruling_table(answer.value.items)])


def ruling_table(rulings: Sequence[Decision]) -> Table:
    """List decisions about submissions, and submissions that wait for one."""
    rows = [
        {
            "number": ruling.number,
            "participant": ruling.participant or None,
            "leaderboard": f"{ruling.problem} on {ruling.gpu}",
            "is": _ruling_state(ruling),
            "rule": one_line(ruling.rule or NO_VALUE, 40),
            "reason": one_line(ruling.reason or NO_VALUE, 60),
            "actor": ruling.actor or None,
            "appeal": ruling.appeal or None,
            "when": ruling.decided_at,
        }
        for ruling in rulings
    ]
    return make_table("rulings", rows, extra=("when", "actor", "rule", "participant", "appeal"))


def _ruling_state(ruling: Decision) -> str:
    if ruling.is_disqualified:
        return "disqualified"
    if ruling.is_held:
        return "held"
    return "held by rule" if ruling.is_held_by_rule and ruling.decided_at is None else "free"


@api_command(
    "admin participant show ada",
    parameters=(click.argument("name", metavar="PARTICIPANT"), options.WIDE),
    access=options.OPERATOR,
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
    if appeal := details.ban_appeal:
        answer = "accepted" if appeal.is_accepted else "rejected"
        is_open = appeal.is_accepted is None
        reason = one_line(appeal.reason or NO_VALUE)
        yield "appeals, not answered yet" if is_open else f"appeals, {answer}: {reason}"
        yield from (f"  {escape_control_characters(line)}" for line in appeal.text.splitlines())


@api_command(
    'admin participant reset-password ada --reason "she asked in the office"',
    parameters=(click.argument("name", metavar="PARTICIPANT"), options.REASON),
    access=options.OPERATOR,
)
async def reset_password(context: AppContext, api: Api, *, name: str, **body: object) -> int:
    """Print a link with which a PARTICIPANT sets a new password.

    It works once, for 24 hours. Who cannot log in yet chooses their first password with it. Using
    it ends the participant's browser sessions; their tokens go on, unless they choose to revoke
    them.
    """
    path = ("admin", "participants", name, "password-reset")
    answer = await api.act(PasswordResetLink, "POST", *path, body=body)
    link = answer.value
    note = (
        f"valid once, until {instant_text(link.expires_at)}: give it only to {name}, "
        "for anyone who has it can log in as them"
    )
    return context.show(answer.document, [link.url], note)


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
    access=options.OPERATOR,
)
async def create_token(context: AppContext, api: Api, **body: object) -> int:
    """Issue a token for a PARTICIPANT.

    It is shown only once.
    """
    return await issue_token(context, api, "admin", "tokens", body=body)


@api_command(
    'admin invite create matmul --count 30 --reason "a class" > codes.txt',
    parameters=(
        click.argument(
            "leaderboards", metavar="PROBLEM...", nargs=-1, required=True, type=options.SLUG
        ),
        click.option(
            "--count", type=IntRange(1, INVITES_MAX), default=1, show_default=True, help="How many."
        ),
        click.option("--expires-at", type=options.Instant(), help="Default: never."),
        options.REASON,
    ),
    access=options.OPERATOR,
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
    parameters=(
        click.argument("leaderboard", metavar="PROBLEM", type=options.SLUG),
        options.WIDE,
    ),
    access=options.OPERATOR,
)
async def list_invites(context: AppContext, api: Api, leaderboard: str) -> int:
    """List the invites to a problem's leaderboards.

    It also shows who accepted them.
    """
    answer = await api.get(Invites, "admin", "leaderboards", leaderboard, "invites")
    return context.show(answer.document, [invite_table(leaderboard, answer.value.items)])


def invite_table(leaderboard: str, invites: Sequence[Invite]) -> Table:
    """List the invites to a leaderboard, and who accepted them."""
    rows = [
        {
            "code": invite.code,
            "participant": invite.participant or None,
            "claimed": invite.claimed_at,
            "created": invite.created_at,
            "expires": invite.expires_at,
        }
        for invite in invites
    ]
    return make_table(f"invites to {leaderboard}", rows, extra=("created", "claimed"))


@api_command("admin deadletter list", parameters=(options.WIDE,), access=options.OPERATOR)
async def list_dead_letters(context: AppContext, api: Api) -> int:
    """List every event that a consumer gave up."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    rows = [
        {
            "consumer": letter.consumer,
            "seq": letter.seq,
            "deliveries": letter.deliveries,
            "when": letter.at,
            "reason": one_line(letter.reason),
        }
        for letter in answer.value.items
    ]
    return context.show(answer.document, [make_table("dead letters", rows, extra=("deliveries",))])


@api_command(
    "admin evaluations --days 7",
    parameters=(
        click.option(
            "--days", type=IntRange(1, 366), default=1, help="How many days back; default 1."
        ),
        options.WIDE,
    ),
    access=options.OPERATOR,
)
async def list_evaluation_use(context: AppContext, api: Api, days: int) -> int:
    """Show what evaluations used, by token.

    A cost needs the prices in WARPBOARD_RANKER_DEVICE_PRICES.
    """
    answer = await api.get(EvaluationUses, "admin", "evaluations", days=days)
    rows = [
        {
            "participant": use.participant or use.participant_id,
            "token": use.token or NO_VALUE,
            "gpu": use.gpu,
            "evaluations": use.evaluations,
            "items": use.items,
            "cached": use.cached,
            "device": f"{use.device_s:,.0f} s",
            "cost": NO_VALUE if use.cost is None else f"{use.cost:.2f}",
        }
        for use in answer.value.items
    ]
    return context.show(answer.document, [make_table("evaluations", rows, extra=("token",))])


@api_command(
    "admin deadletter show ranker-announce 118",
    parameters=(click.argument("consumer"), click.argument("seq", type=IntRange(min=1))),
    access=options.OPERATOR,
)
async def show_dead_letter(context: AppContext, api: Api, consumer: str, seq: int) -> int:
    """Show the event SEQ that a CONSUMER gave up, and why."""
    answer = await api.get(DeadLetters, "admin", "deadletters")
    for document, letter in zip(answer.document["items"], answer.value.items, strict=True):
        if (letter.consumer, letter.seq) == (consumer, seq):
            return context.show(document, _dead_letter_lines(letter))
    reason = f"{consumer} has no dead letter {seq}: warpboard admin deadletter list"
    raise Refused("unknown_dead_letter", reason)


def _dead_letter_lines(letter: DeadLetter) -> Iterator[str]:
    event = f"event {letter.seq} of {letter.stream}"
    yield f"{letter.consumer} gave up {event} at {instant_text(letter.at)}"
    yield f"handed out {count_text(letter.deliveries, 'time')}: {one_line(letter.reason, 2000)}"
    redrive = f"warpboard admin deadletter redrive {letter.consumer} {letter.seq}"
    yield f"once fixed: {redrive} --reason TEXT"
