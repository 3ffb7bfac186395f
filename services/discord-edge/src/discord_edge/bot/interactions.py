"""Interactions: their user, the platform's API for that user, and the replies, errors included."""

import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
import discord
from discord import app_commands

from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.wording import refusal_text
from shared.errors import Failed, Refused

if TYPE_CHECKING:
    from discord_edge.bot.client import EdgeBot

# Unknown interaction, unknown webhook, expired token: the user can no longer see an answer.
UNHEARD = (10062, 10015, 50027)
# The acknowledgements of a button press.
UPDATES = (
    discord.InteractionResponseType.message_update,
    discord.InteractionResponseType.deferred_message_update,
)
Commands = tuple[app_commands.Command[Any, ..., Any], ...]
Choices = list[app_commands.Choice[str]]
BotInteraction: TypeAlias = "discord.Interaction[EdgeBot]"
NOT_YOURS = Refused("not_yours", "only the user who asked for it can use this")

_log = logging.getLogger(__name__)


def interaction_user(interaction: BotInteraction) -> DiscordUser:
    """Return the user of an interaction."""
    return DiscordUser(interaction.user.id, interaction.user.name)


def user_api(interaction: BotInteraction) -> PlatformApi:
    """Return the platform's API for the user of an interaction, whose id is the key."""
    user = interaction_user(interaction)
    return interaction.client.api.on_behalf_of(user, str(interaction.id))


def name_choices(names: Iterable[str]) -> Choices:
    """Return names as the completions of an option."""
    return [app_commands.Choice(name=name[:100], value=name[:100]) for name in names]


async def reply(
    interaction: BotInteraction,
    text: str,
    view: discord.ui.View | None = None,
    files: Sequence[discord.File] = (),
) -> bool:
    """Answer the user privately in a way that is still possible. Returns whether it arrived.

    A message whose button was pressed stays as it is; the answer is a new message.
    """
    text = interaction.client.app_emojis.insert(text)
    new, attached = list(files), list(files) or discord.utils.MISSING
    try:
        if not interaction.response.is_done():
            await interaction.response.send_message(text, ephemeral=True, files=new)
        elif interaction.response.type in UPDATES:
            await interaction.followup.send(text, ephemeral=True, files=new)
        else:
            await interaction.edit_original_response(
                content=text, embed=None, view=view, attachments=attached
            )
    except discord.HTTPException as error:
        if error.code not in UNHEARD:
            _log.warning("interaction %d has no answer: %s", interaction.id, error)
        return False
    except (aiohttp.ClientError, OSError) as error:
        _log.warning("interaction %d has no answer: %s", interaction.id, type(error).__name__)
        return False
    return True


@asynccontextmanager
async def reply_on_error(interaction: BotInteraction) -> AsyncIterator[None]:
    """Explain any error after a button press to the user; discord.py would only log it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as for commands, no bug leaves users waiting
        await reply_with_error(interaction, error)


async def reply_with_error(interaction: BotInteraction, error: BaseException) -> None:
    """Explain an error in a sentence, with an id and without internal details."""
    identity = str(interaction.id)
    interaction.client.dispatch("interaction_failed", interaction, error)
    if isinstance(error, Refused):
        await reply(interaction, refusal_text(error, identity, time.time()))
    elif isinstance(error, Failed):
        _log.warning("interaction %s failed: %s", identity, error)
        # The request may have succeeded and only its answer got lost.
        text = "Probably not done: the platform does not answer at the moment. Check before you "
        await reply(interaction, f"{text}try again. `{identity}`")
    elif isinstance(error, app_commands.CheckFailure):
        await reply(interaction, f"Not done: you may not use this. `{identity}`")
    else:
        _log.error("interaction %s failed", identity, exc_info=error)
        await reply(interaction, f"Not done: the bot has a problem, not you. `{identity}`")
