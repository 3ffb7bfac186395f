"""Commands for your account: its permissions, tokens, identities and notifications."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

import click
from click import IntRange

from shared.api.accounts import CurrentAccount, Identity, IssuedToken, Participant, Token, Tokens
from shared.api.preferences import Preferences
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, instant_text, one_line
from warpboard.domain.tables import Table
from warpboard.service.context import AppContext, send_action
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, api_command, local_command

DAYS_MAX = 365
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


@api_command("auth status --json")
async def show_account(context: AppContext, api: Api) -> int:
    """Show the current account and its permissions."""
    url = context.url(context.place)
    answer = await api.get(CurrentAccount, "me")
    return context.show(answer.document | {"url": url}, account_lines(answer.value, url))


def account_lines(account: CurrentAccount, url: str) -> Iterator[str]:
    """Describe the current account and its permissions."""
    yield f"{account.name} at {url}" + (f", {', '.join(account.roles)}" if account.roles else "")
    yield from profile_lines(account)
    yield "may: " + (" ".join(sorted(account.scopes)) or NO_VALUE)
    if account.problems:
        yield f"for {', '.join(account.problems)} alone"


def profile_lines(profile: CurrentAccount | Participant) -> Iterator[str]:
    """Describe an account's ban, identities and closed leaderboards."""
    if profile.ban is not None:
        yield f"banned {one_line(profile.ban.removeprefix('you are banned, '), 300)}"
    if profile.identities:
        yield "identities: " + ", ".join(map(_identity_text, profile.identities))
    if profile.leaderboards:
        yield f"closed leaderboards: {', '.join(profile.leaderboards)}"


def _identity_text(identity: Identity) -> str:
    id_suffix = f" ({identity.id})" if identity.id else ""
    return one_line(f"{identity.provider}:{identity.subject}{id_suffix}", 200)


async def resolve_name(api: Api, known_name: str | None) -> str:
    """Return the caller's name, from here or from the platform. Raises Refused and Failed."""
    if known_name is not None:
        return known_name
    return (await api.get(CurrentAccount, "me")).value.name


@api_command("auth token list")
async def list_tokens(context: AppContext, api: Api) -> int:
    """List your tokens, and when each was last used."""
    answer = await api.get(Tokens, "tokens")
    return context.show(answer.document, [token_table(answer.value.items)])


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


revoke_token = ActionCommand(
    "DELETE tokens/{number}",
    "Revoke your token NUMBER; it stops working within a second.",
    "auth token revoke 31",
    (options.NUMBER,),
    access=options.platform_options,
)


@api_command(
    "auth unlink github:583231",
    parameters=(click.argument("identity_name", metavar="IDENTITY"),),
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
            reason = (
                f"you are not known as {identity_name!r}: warpboard auth status says where you are"
            )
            raise Refused("unknown_identity", reason, "identity")
        identity_name = ids[identity_name]
    return await send_action(context, api, "DELETE", "me", "identities", identity_name)


appeal_ban = ActionCommand(
    "POST me/appeal",
    "Appeal your ban.",
    'auth appeal "the other account is my brother\'s"',
    (click.argument("text"),),
    access=options.platform_options,
)


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
    access=options.platform_options,
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
    async with context.api(context.place) as api:
        body = {event.replace("-", "_"): how}
        answer = await api.act(Preferences, "PUT", *PREFERENCES, body=body)
    return context.show(answer.document, _preference_lines(answer.value))


def _preference_lines(preferences: Preferences) -> Iterator[str]:
    for name in PREFERENCE_CHOICES:
        yield f"{name}: {getattr(preferences, name.replace('-', '_'))}"
