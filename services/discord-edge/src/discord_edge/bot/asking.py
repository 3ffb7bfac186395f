"""One interaction: who asks, and how they are answered whatever happens."""

import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import discord
from discord import app_commands
from discord.ext import commands

from discord_edge.bot.marks import Marks
from discord_edge.domain.wording import refusal
from discord_edge.service.boards import Boards
from discord_edge.service.following import Following
from discord_edge.service.memory import Memory
from discord_edge.service.office import Office
from discord_edge.service.pairing import Pairing
from discord_edge.service.ports import User
from discord_edge.service.sending import Sending
from discord_edge.service.sets import Publishing
from discord_edge.service.trends import Trends
from shared.errors import Failed, Refused


class Edge(commands.Bot):
    """The bot as a command finds it: what it stands on, and where it serves."""

    api: Office
    boards: Boards
    memory: Memory
    following: Following
    sending: Sending
    publishing: Publishing
    trends: Trends
    marks: Marks
    places: frozenset[int]
    guild_id: int
    # Which role on the server, by its id, stands for which of the platform's.
    staff: Mapping[int, str]
    # Where everybody is told of problems there is a forum to pair them with.
    pairing: Pairing | None = None
    # Where problems to develop on lie, on a machine of one's own.
    local: Path | None = None


Here = discord.Interaction[Edge]

# Too late, a hook that is not there yet, a token that is over: nobody hears the answer any more.
UNHEARD = (10062, 10015, 50027)
# By which a message with buttons is acknowledged.
UPDATED = discord.InteractionResponseType.message_update
BESIDE = (UPDATED, discord.InteractionResponseType.deferred_message_update)

_log = logging.getLogger(__name__)


def user_of(here: Here) -> User:
    """Who uses the bot."""
    return User(here.user.id, here.user.name)


async def say(
    here: Here, text: str, view: discord.ui.View | None = None, files: Sequence[discord.File] = ()
) -> bool:
    """Answer, to who asked alone, by the way that is still open; whether anybody heard it.

    What was pressed on stays as it is: the answer is a message beside it.
    """
    text = here.client.marks.drawn(text)
    new, attached = list(files), list(files) or discord.utils.MISSING
    try:
        if not here.response.is_done():
            await here.response.send_message(text, ephemeral=True, files=new)
        elif here.response.type in BESIDE:
            await here.followup.send(text, ephemeral=True, files=new)
        else:
            await here.edit_original_response(
                content=text, embed=None, view=view, attachments=attached
            )
    except discord.HTTPException as error:
        if error.code not in UNHEARD:
            _log.warning("interaction %d has no answer: %s", here.id, error)
        return False
    except (aiohttp.ClientError, OSError) as error:
        _log.warning("interaction %d has no answer: %s", here.id, type(error).__name__)
        return False
    return True


@asynccontextmanager
async def pressed(here: Here) -> AsyncIterator[None]:
    """Whatever goes wrong after a button was pressed is told; the library would only log it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as of a command, no mistake leaves one waiting
        await fail(here, error)


async def fail(here: Here, error: BaseException) -> None:
    """Say in a sentence what went wrong, with an id and without what is inside."""
    identity = str(here.id)
    here.client.dispatch("interaction_failed", here, error)
    if isinstance(error, Refused):
        await say(here, refusal(error, identity, time.time()))
    elif isinstance(error, Failed):
        _log.warning("interaction %s failed: %s", identity, error)
        # Its answer may be what was lost.
        said = "Not done, as far as is known: the platform does not answer at the moment; look "
        said += "before you try again."
        await say(here, f"{said} `{identity}`")
    elif isinstance(error, app_commands.CheckFailure):
        await say(here, f"Not done: you may not use this. `{identity}`")
    else:
        _log.error("interaction %s failed", identity, exc_info=error)
        await say(here, f"Not done: something went wrong here, not with you. `{identity}`")
