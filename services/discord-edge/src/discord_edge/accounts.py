"""The commands of `/account`: preferences, linked CLI ids and tokens. No token is ever shown."""

from datetime import datetime
from typing import Literal

import msgspec
from discord import app_commands

from discord_edge.bot.interactions import (
    BotInteraction,
    Commands,
    Confirmation,
    Number,
    defer,
    interaction_user,
    reply,
    reply_with_lines,
)
from discord_edge.wording import CHOICES_MAX, discord_time, escaped
from shared.api.accounts import Preferences, Tokens
from shared.errors import Refused

ASKED_S_MAX = 120.0
LINE = "my lines for everybody"
Event = Literal["overtaken", "run finished", "deadline near", "my lines for everybody"]
How = Literal["thread", "dm", "on", "off"]
Threads = Literal["per submission", "per problem", "as the server has it"]
EVENTS = {
    "overtaken": "overtaken",
    "run finished": "run_finished",
    "deadline near": "deadline_near",
    LINE: "ranked_line",
}
THREADS = {
    "per submission": "per_submission",
    "per problem": "per_problem",
    "as the server has it": "default",
}
HOWS = {
    "off": "no",
    "thread": "in the submission's thread, or by direct message if there is none",
    "dm": "by direct message",
    "on": "yes",
}


def _relative_time(at: datetime | None) -> str:
    return "never" if at is None else discord_time(at, "R")


class LinkRequest(msgspec.Struct, frozen=True):
    """Where a CLI id was requested from."""

    requested_at: datetime
    network: str


class LinkedClient(msgspec.Struct, frozen=True):
    """A CLI id that acts for a participant, as one of their tokens."""

    participant: str
    token_id: int


async def complete_tokens(
    interaction: BotInteraction, typed: str
) -> list[app_commands.Choice[int]]:
    """Complete the user's own tokens by number and name."""
    tokens = await interaction.client.cache.get(interaction_user(interaction), Tokens, "tokens")
    labels = {token.id: f"{token.id} {token.name}" for token in tokens.items} if tokens else {}
    return [
        app_commands.Choice(name=label[:100], value=number)
        for number, label in reversed(labels.items())
        if typed.lower() in label.lower()
    ][:CHOICES_MAX]


@app_commands.command()
@app_commands.describe(cli_id="The id that your client wrote into its settings")
@app_commands.rename(cli_id="id")
async def link(interaction: BotInteraction, cli_id: app_commands.Range[str, 1, 256]) -> None:
    """Let a client in a terminal act for you"""
    api, path, cli_id = await defer(interaction), ("auth", "link"), cli_id.strip()
    request = await api.with_key(f"{api.key}-look").request(
        LinkRequest, "POST", *path, cli_id=cli_id, confirm=False
    )
    question = (
        f"A client requested this id {_relative_time(request.requested_at)}, from the network "
        f"{escaped(request.network)}. Did you start this yourself, a moment ago? "
        "Then it may submit for you for 90 days; `/account revoke` ends that."
    )
    if not await Confirmation(interaction, "Link it", "Do not", ASKED_S_MAX).ask(question):
        await reply(interaction, "Nothing was linked.")
        return
    client = await api.with_key(f"{api.key}-link").request(
        LinkedClient, "POST", *path, cli_id=cli_id, confirm=True
    )
    name = escaped(client.participant)
    await reply(interaction, f"Linked: the client now acts for {name}, as token {client.token_id}.")


@app_commands.command()
async def tokens(interaction: BotInteraction) -> None:
    """What acts for you: clients, browsers, tokens"""
    api = await defer(interaction)
    page = await api.get_if_known(Tokens, "tokens")
    lines = [
        f"**{token.id}** {escaped(token.name)} · {token.kind} · used "
        f"{_relative_time(token.last_used_at)} · ends "
        f"{_relative_time(token.expires_at)} · {escaped(', '.join(token.scopes))}"
        for token in (page.items if page else [])
    ]
    await reply_with_lines(interaction, lines, "You have no tokens.")


@app_commands.command()
@app_commands.autocomplete(token=complete_tokens)
async def revoke(interaction: BotInteraction, token: Number) -> None:
    """Revoke one of your tokens"""
    api = await defer(interaction)
    await api.request(object, "DELETE", "tokens", token)
    await reply(interaction, f"Token {token} is revoked.")


@app_commands.command()
@app_commands.describe(
    event="The event to change; without it, your settings are shown",
    how="Where you are notified; on and off are for your public lines",
    threads="One thread per submission, or one for all of yours to a problem",
)
async def notify(
    interaction: BotInteraction,
    event: Event | None = None,
    how: How | None = None,
    threads: Threads | None = None,
) -> None:
    """Choose your notifications"""
    api, path = await defer(interaction), ("me", "preferences")
    if changes := _preference_changes(event, how, threads):
        preferences = await api.request(Preferences, "PUT", *path, **changes)
        lines = ["From now on:", *_preference_lines(preferences)]
    elif known := await api.get_if_known(Preferences, *path):
        lines = _preference_lines(known)
    else:
        await reply(interaction, "You are only notified of decisions about your submissions.")
        return
    if not interaction.client.settings.public:
        lines.append("This bot only answers commands at the moment: it sends no notifications.")
    await reply(interaction, "\n".join(lines))


def _preference_changes(event: str | None, how: str | None, threads: str | None) -> dict[str, str]:
    """Return the preferences to change. Raises `Refused` for options that do not fit."""
    if (event is None) != (how is None):
        raise Refused("bad_query", "event and how belong together: use both or neither", "how")
    changes = {"threads": THREADS[threads]} if threads else {}
    if event is None or how is None:
        return changes
    if (event == LINE) != (how in ("on", "off")) and how != "off":
        allowed = "on or off" if event == LINE else "thread, dm or off"
        raise Refused("bad_query", f"how of {event!r} must be {allowed}, not {how!r}", "how")
    return {**changes, EVENTS[event]: how}


def _preference_lines(preferences: Preferences) -> list[str]:
    lines = [f"{event}: {HOWS[getattr(preferences, name)]}" for event, name in EVENTS.items()]
    threads = next(choice for choice, name in THREADS.items() if name == preferences.threads)
    return [*lines, f"private threads: {threads}"]


COMMANDS: Commands = (link, tokens, revoke, notify)
