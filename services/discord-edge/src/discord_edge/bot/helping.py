"""`/leaderboard help`: what the bot can do, as its own tree of commands has it."""

from collections.abc import Iterator
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.asking import Here
from discord_edge.bot.staff import roles_of, told
from discord_edge.bot.submitting import Choices
from discord_edge.domain.wishes import matching
from discord_edge.domain.wording import escaped
from shared.errors import Refused

Command = app_commands.Command[Any, ..., Any]


async def topics(here: Here, typed: str) -> Choices:
    """The commands and groups that one may ask about."""
    names = {one.qualified_name for one in _shown(here)}
    names |= {one.parent.qualified_name for one in _shown(here) if one.parent is not None}
    found = matching(typed.lstrip("/"), sorted(names))
    return [app_commands.Choice(name=one, value=one) for one in found]


@app_commands.command(name="help", description="What the bot can do")
@app_commands.autocomplete(topic=topics)
async def help_(here: Here, topic: str | None = None) -> None:
    """The commands, or one group of them, or all that one of them takes."""
    await here.response.defer(ephemeral=True, thinking=True)
    asked = " ".join((topic or "").strip().lstrip("/").lower().split())
    found = [one for one in _shown(here) if _is_of(one.qualified_name, asked)]
    if not found:
        what = f"there is no command `{escaped(asked, 60)}`: `/leaderboard help` has them all"
        raise Refused("unknown_topic", what, "topic")
    lines = [line for one in found for line in _lines(one, is_whole=bool(asked))]
    await told(here, lines, "There are no commands.")


def _shown(here: Here) -> list[Command]:
    """The commands that who asks is shown by Discord."""
    is_staff = bool(roles_of(here))
    tree, guild = here.client.tree, discord.Object(here.client.guild_id)
    return [
        one
        for one in tree.walk_commands(guild=guild)
        if isinstance(one, app_commands.Command) and (is_staff or _is_for_all(one))
    ]


def _is_for_all(command: Command) -> bool:
    """Whether Discord hides it from nobody."""
    group = command.root_parent
    return group is None or group.default_permissions is None


def _is_of(name: str, asked: str) -> bool:
    """Whether a command is what is asked about, or of that group."""
    return not asked or name == asked or name.startswith(f"{asked} ")


def _lines(command: Command, *, is_whole: bool) -> Iterator[str]:
    yield f"`/{command.qualified_name}` {escaped(command.description)}"
    if is_whole:
        for one in command.parameters:
            needed = "" if one.required else ", may be left out"
            choices = ", ".join(choice.name for choice in one.choices)
            yield f"- `{one.display_name}`{needed}" + (f": {choices}" if choices else "")
