"""One interaction: who asks, and how they are answered whatever happens."""

import logging
import time
from collections.abc import Mapping

import discord
from discord import app_commands
from discord.ext import commands

from discord_edge.domain.wording import refusal
from discord_edge.service.boards import Boards
from discord_edge.service.following import Following
from discord_edge.service.office import Office
from discord_edge.service.ports import User
from discord_edge.service.sending import Sending
from shared.errors import Failed, Refused


class Edge(commands.Bot):
    """The bot as a command finds it: what it stands on, and where it serves."""

    api: Office
    boards: Boards
    following: Following
    sending: Sending
    places: frozenset[int]
    guild_id: int
    # Which role on the server, by its id, stands for which of the platform's.
    staff: Mapping[int, str]


Here = discord.Interaction[Edge]

# Too late, a hook that is not there yet, a token that is over: nobody hears the answer any more.
UNHEARD = (10062, 10015, 50027)

_log = logging.getLogger(__name__)


def user_of(here: Here) -> User:
    """Who uses the bot."""
    return User(here.user.id, here.user.name)


async def say(here: Here, text: str) -> None:
    """Answer, to who asked alone, by the way that is still open."""
    try:
        if here.response.is_done():
            await here.edit_original_response(content=text, embed=None, view=None)
        else:
            await here.response.send_message(text, ephemeral=True)
    except discord.HTTPException as error:
        if error.code not in UNHEARD:
            _log.warning("interaction %d has no answer: %s", here.id, error)


async def fail(here: Here, error: BaseException) -> None:
    """Say in a sentence what went wrong, with an id and without what is inside."""
    identity = str(here.id)
    if isinstance(error, Refused):
        await say(here, refusal(error, identity, time.time()))
    elif isinstance(error, Failed):
        _log.warning("interaction %s failed: %s", identity, error)
        said = "Not done: the platform does not answer at the moment; try again soon."
        await say(here, f"{said} `{identity}`")
    elif isinstance(error, app_commands.CheckFailure):
        await say(here, f"Not done: you may not use this. `{identity}`")
    else:
        _log.error("interaction %s failed", identity, exc_info=error)
        await say(here, f"Not done: something went wrong here, not with you. `{identity}`")
