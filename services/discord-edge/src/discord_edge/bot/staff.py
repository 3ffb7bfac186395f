"""Checks and helpers for the commands of authors and operators, who need a role on the server."""

import asyncio
import io
from collections.abc import Sequence

import discord
from discord import app_commands

from discord_edge.bot.interactions import BotInteraction, Choices, name_choices, reply
from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.wording import CONTENT_MAX, match_names
from shared.api.accounts import CurrentAccount
from shared.api.platform import DecisionResponse
from shared.api.problems import Problems
from shared.errors import Refused

# The longest name of a problem.
NAME_LENGTH_MAX = 95
BOARDS_PAGE, BOARDS_PAGES_MAX = 100, 5
# The recorded reason for access to data that is not public.
LOOKED = "looked at on Discord"
Reason = app_commands.Range[str, 1, 400]
Named = app_commands.Range[str, 1, NAME_LENGTH_MAX]
Number = app_commands.Range[int, 1, 2**53 - 1]
READ_S_MAX = 10.0
ADMIN = "admin"


def platform_roles(interaction: BotInteraction) -> tuple[str, ...]:
    """Return the platform roles that the user's server roles grant."""
    if not isinstance(interaction.user, discord.Member):
        return ()
    names = interaction.client.settings.role_names
    return tuple(sorted({names[role.id] for role in interaction.user.roles if role.id in names}))


def require_role(interaction: BotInteraction, *allowed: str) -> PlatformApi:
    """Return the API for the user with their roles, under the interaction's id as the key.

    Raises `Refused` for users without an allowed role.
    """
    roles = platform_roles(interaction)
    if not set(roles) & set(allowed):
        reason = f"this needs the role of a {' or '.join(allowed)} on this server"
        raise Refused("role_missing", reason)
    user = DiscordUser(interaction.user.id, interaction.user.name, roles)
    return interaction.client.api.on_behalf_of(user, str(interaction.id))


async def defer_for_role(interaction: BotInteraction, *allowed: str) -> PlatformApi:
    """Defer the answer, then check the user's roles and return their API. Raises `Refused`."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    return require_role(interaction, *allowed)


async def run_decision(api: PlatformApi, *path: str | int, **body: object) -> str:
    """Send a decision, and return a note if it changed nothing. Raises `Refused`, `Failed`."""
    decision = await api.request(DecisionResponse, "POST", *path, **body)
    return "" if decision.event else " This was already the case."


async def record_access(
    interaction: BotInteraction, api: PlatformApi, target: str, reason: str = LOOKED
) -> None:
    """Record in the log that a user saw data that is not public. Raises `Refused`, `Failed`."""
    command = "discord /" + (interaction.command.qualified_name if interaction.command else "")
    body = {"command": command, "target": target, "reason": reason}
    await api.with_key(f"{api.key}-acted").request(object, "POST", "admin", "acted", **body)


async def reply_with_lines(
    interaction: BotInteraction, lines: Sequence[str], empty_text: str = ""
) -> bool:
    """Reply with lines, as a file if they are too long. Returns whether the reply arrived."""
    text = "\n".join(lines) or empty_text
    if len(text) <= CONTENT_MAX:
        return await reply(interaction, text)
    file = discord.File(io.BytesIO(text.encode()), "answer.txt")
    return await reply(interaction, f"{len(lines)} lines: see the file.", files=[file])


async def complete_any_leaderboard(interaction: BotInteraction, typed: str) -> Choices:
    """Complete leaderboards, including closed ones that the user may see."""
    user = DiscordUser(interaction.user.id, interaction.user.name, platform_roles(interaction))
    query: dict[str, str | int] = {"state": "all", "limit": BOARDS_PAGE}
    slugs = set(interaction.client.leaderboards.known)
    for _ in range(BOARDS_PAGES_MAX):
        page = await interaction.client.cache.get(user, Problems, "problems", **query)
        slugs |= {problem.slug for problem in page.items} if page else set()
        if page is None or not page.next_cursor:
            break
        query["cursor"] = page.next_cursor
    return name_choices(match_names(typed, sorted(slugs)))


async def find_participant_name(
    interaction: BotInteraction, user: discord.User | None, name: str | None
) -> str:
    """Return the participant's name on the platform. Raises `Refused` and `Failed`."""
    if (user is None) == (name is None):
        raise Refused("invalid_request", "choose either `user` or `participant`", "user")
    if name is not None:
        return name.strip().lower()
    assert user is not None, "either the user or the name is given"
    api = interaction.client.api.on_behalf_of(DiscordUser(user.id))
    account = await api.get_if_known(CurrentAccount, "me")
    if account is None:
        reason = "this user has never used the bot, so the platform does not know them"
        raise Refused("unknown_participant", reason, "user")
    return account.name


async def read_attachment(file: discord.Attachment, field: str) -> bytes:
    """Download an attachment, immediately: its URL expires. Raises `Refused` `bad_file`."""
    try:
        async with asyncio.timeout(READ_S_MAX):
            return await file.read()
    except (discord.HTTPException, TimeoutError) as error:
        reason = "Discord no longer provides the file: attach it again"
        raise Refused("bad_file", reason, field) from error
