"""Commands for your account: its permissions, tokens, identities and notifications."""

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import click
from click import IntRange

from shared.api.accounts import (
    CurrentAccount,
    DeliveryChannel,
    IssuedToken,
    OnOff,
    Participant,
    Preferences,
    ThreadChoice,
    Token,
    Tokens,
)
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, instant_text, one_line
from warpboard.api import Api
from warpboard.context import AppContext, send_action
from warpboard.domain.tables import Table, make_table
from warpboard.terminal import options
from warpboard.terminal.command_types import api_command, local_command

DAYS_MAX = 365
PREFERENCES = ("me", "preferences")
PREFERENCE_CHOICES = {
    "overtaken": get_args(DeliveryChannel),
    "run-finished": get_args(DeliveryChannel),
    "deadline-near": get_args(DeliveryChannel),
    "ranked-line": get_args(OnOff),
    "threads": get_args(ThreadChoice),
}


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
    lines += [f"for {', '.join(account.problems)} alone"] if account.problems else []
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
    expires = f", good until {instant_text(created.expires_at)}" if created.expires_at else ""
    note = f"token {created.id}{expires}: it is shown this once, so keep it now"
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
