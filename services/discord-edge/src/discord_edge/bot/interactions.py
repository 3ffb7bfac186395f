"""Interactions: users and their roles, replies, errors, the types of options, and dialogs.

The dialogs are for one user: buttons that survive a restart, menus, confirmations and forms.
"""

import asyncio
import io
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar

import aiohttp
import discord
from discord import app_commands
from discord.ext import commands

from discord_edge.bot.discord_py import ApplicationEmojis, build_embed, build_files
from discord_edge.platform_api import (
    DiscordUser,
    LeaderboardCache,
    PlatformApi,
    RankTrends,
    ReadCache,
)
from discord_edge.settings import Settings
from discord_edge.wording import (
    CONTENT_MAX,
    Card,
    fit_attachments,
    match_gpu_list,
    match_names,
    refusal_text,
)
from shared.api.problems import Problems
from shared.api.queues import DecisionResponse, Queues
from shared.errors import Failed, Refused
from shared.presentation.report_parts import launcher_label, list_launchers

MENU_S_MAX = 120.0
OPTIONS_MAX = 25
Commands = tuple[app_commands.Command[Any, ..., Any], ...]
ADMIN = "admin"
NOT_YOURS = Refused("not_yours", "only the user who asked for it can use this")
# Unknown interaction, unknown webhook, expired token: the user can no longer see an answer.
UNHEARD = (10062, 10015, 50027)
# The acknowledgements of a button press.
UPDATES = (
    discord.InteractionResponseType.message_update,
    discord.InteractionResponseType.deferred_message_update,
)
# The longest name of a problem.
NAME_LENGTH_MAX = 95
BOARDS_PAGE, BOARDS_PAGES_MAX = 100, 5
READ_S_MAX = 10.0

_log = logging.getLogger(__name__)


class CommandBot(commands.Bot):
    """The bot as its commands see it: the services that they use."""

    settings: Settings
    api: PlatformApi
    app_emojis: ApplicationEmojis
    leaderboards: LeaderboardCache
    trends: RankTrends
    cache: ReadCache


BotInteraction = discord.Interaction[CommandBot]
# What a button uses of the bot, which may be more than the services that all commands use.
ButtonBot = TypeVar("ButtonBot", bound=CommandBot)


def interaction_user(interaction: BotInteraction) -> DiscordUser:
    """Return the user of an interaction, without their roles."""
    return DiscordUser(interaction.user.id, interaction.user.name)


def platform_roles(interaction: BotInteraction) -> tuple[str, ...]:
    """Return the platform roles that the user's server roles grant."""
    if not isinstance(interaction.user, discord.Member):
        return ()
    names = interaction.client.settings.role_names
    keys = {key for role in interaction.user.roles for key in (str(role.id), role.name)}
    return tuple(sorted({names[key] for key in keys if key in names}))


def user_api(interaction: BotInteraction, *roles: str) -> PlatformApi:
    """Return the platform's API for the user, under the interaction's id as the key.

    With `roles`, raises `Refused` for users without one of them; the API then has the user's roles.
    """
    user = interaction_user(interaction)
    if roles:
        user = DiscordUser(user.id, user.name, platform_roles(interaction))
        if not set(user.roles) & set(roles):
            names = interaction.client.settings.role_names
            known = [key for key, name in names.items() if name in roles]
            mentions = [f"<@&{key}>" if key.isdecimal() else f"`{key}`" for key in known]
            reason = f"this needs the role {' or '.join(mentions or roles)} on this server"
            raise Refused("role_missing", reason)
    return interaction.client.api.on_behalf_of(user, str(interaction.id))


async def defer(interaction: BotInteraction, *roles: str) -> PlatformApi:
    """Defer a private answer, then check the roles and return the API as `user_api` does."""
    await interaction.response.defer(ephemeral=True, thinking=True)
    return user_api(interaction, *roles)


def parent_channel(interaction: BotInteraction) -> int:
    """Return the channel of an interaction; for a thread, its parent."""
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    return thread.parent_id if thread else interaction.channel_id or 0


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


async def reply_with_lines(
    interaction: BotInteraction, lines: Sequence[str], empty_text: str = ""
) -> bool:
    """Reply with lines, as a file if they are too long. Returns whether the reply arrived."""
    text = "\n".join(lines) or empty_text
    if len(text) <= CONTENT_MAX:
        return await reply(interaction, text)
    file = discord.File(io.BytesIO(text.encode()), "answer.txt")
    return await reply(interaction, f"{len(lines)} lines: see the file.", files=[file])


async def reply_with_card(
    interaction: BotInteraction,
    card: Card,
    content: str | None = None,
    view: discord.ui.View | None = None,
    files: Sequence[discord.File] = (),
) -> None:
    """Show a card with those of its files that Discord accepts, followed by `files`."""
    card = fit_attachments(card, interaction.filesize_limit)
    attachments = [*build_files(card), *files]
    await interaction.edit_original_response(
        content=content, embed=build_embed(card), attachments=attachments, view=view
    )


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
    match error:
        case Refused():
            text = refusal_text(error, identity, time.time())
        case Failed():
            _log.warning("interaction %s failed: %s", identity, error)
            # The request may have succeeded and only its answer got lost.
            text = "Probably not done: the platform does not answer at the moment. Check before "
            text += f"you try again. `{identity}`"
        case app_commands.CheckFailure():
            text = f"Not done: you may not use this. `{identity}`"
        case _:
            _log.error("interaction %s failed", identity, exc_info=error)
            text = f"Not done: the bot has a problem, not you. `{identity}`"
    await reply(interaction, text)


async def run_decision(api: PlatformApi, *path: str | int, **body: object) -> str:
    """Send a decision, and return a note if it changed nothing. Raises `Refused`, `Failed`."""
    decision = await api.request(DecisionResponse, "POST", *path, **body)
    return "" if decision.event else " This was already the case."


async def read_attachment(file: discord.Attachment, field: str) -> bytes:
    """Download an attachment, immediately: its URL expires. Raises `Refused` `bad_file`."""
    try:
        async with asyncio.timeout(READ_S_MAX):
            return await file.read()
    except (discord.HTTPException, TimeoutError) as error:
        reason = "Discord no longer provides the file: attach it again"
        raise Refused("bad_file", reason, field) from error


class CompletedName(app_commands.Transformer):
    """An option with completions; the names of leaderboards (`is_slug`) become lower-case."""

    def __init__(
        self,
        complete: Callable[[BotInteraction, str], Awaitable[list[str]]],
        *,
        is_slug: bool = False,
        length_max: int | None = None,
    ) -> None:
        self.complete, self.is_slug, self.length_max = complete, is_slug, length_max

    @property
    def min_value(self) -> int | None:
        """The minimum length, if there is a maximum."""
        return 1 if self.length_max else None

    @property
    def max_value(self) -> int | None:
        """The maximum length."""
        return self.length_max

    async def transform(self, _: discord.Interaction[Any], value: str) -> str:
        """Normalize the name of a leaderboard."""
        return value.strip().lower() if self.is_slug else value

    async def autocomplete(  # type: ignore[override]  # of text alone
        self, interaction: BotInteraction, typed: str
    ) -> list[app_commands.Choice[str]]:
        """Complete the typed text."""
        names = await self.complete(interaction, typed)
        return [app_commands.Choice(name=name[:100], value=name[:100]) for name in names]


async def _match_known_leaderboards(interaction: BotInteraction, typed: str) -> list[str]:
    return match_names(typed, sorted(interaction.client.leaderboards.known))


async def _match_open_leaderboards(interaction: BotInteraction, typed: str) -> list[str]:
    return match_names(typed, interaction.client.leaderboards.open_slugs)


async def _match_visible_leaderboards(interaction: BotInteraction, typed: str) -> list[str]:
    user = DiscordUser(interaction.user.id, interaction.user.name, platform_roles(interaction))
    query: dict[str, str | int] = {"state": "all", "limit": BOARDS_PAGE}
    slugs = set(interaction.client.leaderboards.known)
    for _ in range(BOARDS_PAGES_MAX):
        page = await interaction.client.cache.get(user, Problems, "problems", **query)
        slugs |= {problem.slug for problem in page.items} if page else set()
        if page is None or not page.next_cursor:
            break
        query["cursor"] = page.next_cursor
    return match_names(typed, sorted(slugs))


async def _match_gpus(interaction: BotInteraction, typed: str) -> list[str]:
    """Complete a comma-separated list of the chosen leaderboard's GPU types."""
    slug = getattr(interaction.namespace, "leaderboard_name", None)
    return match_gpu_list(typed, interaction.client.leaderboards.gpus(slug))


async def _match_launchers(interaction: BotInteraction, typed: str) -> list[str]:
    queues = await interaction.client.cache.get(None, Queues, "queue")
    labels = [
        launcher_label(launcher) for launcher, _ in list_launchers(queues.pools if queues else ())
    ]
    return match_names(typed, labels)


class RunnerName(CompletedName):
    """The name of a launcher; a completion also says whether it is a stand-in."""

    async def autocomplete(  # type: ignore[override]  # of text alone
        self, interaction: BotInteraction, typed: str
    ) -> list[app_commands.Choice[str]]:
        """Complete the typed text."""
        choices = await super().autocomplete(interaction, typed)
        return [
            app_commands.Choice(name=choice.name, value=choice.value.partition(" ")[0])
            for choice in choices
        ]


Leaderboard = app_commands.Transform[str, CompletedName(_match_known_leaderboards, is_slug=True)]
OpenLeaderboard = app_commands.Transform[str, CompletedName(_match_open_leaderboards, is_slug=True)]
# Any leaderboard that an author or operator may see.
VisibleLeaderboard = app_commands.Transform[
    str, CompletedName(_match_visible_leaderboards, is_slug=True, length_max=NAME_LENGTH_MAX)
]
Gpus = app_commands.Transform[str, CompletedName(_match_gpus)]
Runner = app_commands.Transform[str, RunnerName(_match_launchers, length_max=64)]
Slug = app_commands.Range[str, 1, NAME_LENGTH_MAX]
Reason = app_commands.Range[str, 1, 400]
Number = app_commands.Range[int, 1, 2**53 - 1]


class BotButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    Generic[ButtonBot],
    template="(?!)",
):
    """A button that works however old it is: its id contains the arguments of its class."""

    def __init__(self, label: str, identity: str, *, is_off: bool = False) -> None:
        super().__init__(discord.ui.Button(label=label, custom_id=identity, disabled=is_off))

    @classmethod
    async def from_custom_id(
        cls, _: discord.Interaction[Any], __: discord.ui.Item[Any], match: re.Match[str]
    ) -> Self:
        """Restore the button of a message."""
        return cls(*match.groups(""))

    async def callback(  # type: ignore[override]
        self, interaction: discord.Interaction[ButtonBot]
    ) -> None:
        """Act on a press, and explain errors."""
        async with reply_on_error(interaction):
            await self.press(interaction)

    async def press(self, interaction: discord.Interaction[ButtonBot]) -> None:
        """Act on a press."""
        raise NotImplementedError


class Question(discord.ui.View):
    """A question that only the user of the interaction may answer, within a time."""

    def __init__(self, asked_by: BotInteraction, wait_s: float) -> None:
        super().__init__(timeout=wait_s)
        self.asked_by = asked_by

    async def interaction_check(self, interaction: discord.Interaction[Any]) -> bool:
        """Allow the owner only, and tell others that they may not answer."""
        is_owner = interaction.user.id == self.asked_by.user.id
        if not is_owner:
            await reply_with_error(interaction, NOT_YOURS)
        return is_owner

    async def on_error(
        self, interaction: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)


class GpuMenu(Question):
    """Asks for GPU types, or for other names that `placeholder` describes."""

    def __init__(
        self,
        interaction: BotInteraction,
        names: Sequence[str],
        choices_max: int = OPTIONS_MAX,
        placeholder: str = "GPU types",
    ) -> None:
        super().__init__(interaction, MENU_S_MAX)
        self.choice: tuple[str, ...] = ()
        vendor_emoji = interaction.client.app_emojis.vendor_emoji
        self.select.options = [
            discord.SelectOption(label=name[:100], value=name[:100], emoji=vendor_emoji(name))
            for name in names[:OPTIONS_MAX]
        ]
        self.select.max_values = min(choices_max, len(self.select.options))
        self.select.placeholder = placeholder

    @discord.ui.select(cls=discord.ui.Select["GpuMenu"])
    async def select(
        self, interaction: BotInteraction, select: discord.ui.Select["GpuMenu"]
    ) -> None:
        """Store the choice and close the menu."""
        self.choice, select.disabled = tuple(select.values), True
        text = f"{', '.join(self.choice)} …"
        await interaction.response.edit_message(content=text, view=self)
        self.stop()

    async def ask(self, text: str, late_text: str = "") -> tuple[str, ...]:
        """Return the choice; empty after two minutes, when `late_text` replaces the question."""
        await self.asked_by.edit_original_response(content=text, view=self)
        if await self.wait() and late_text:
            self.select.disabled = True
            await self.asked_by.edit_original_response(content=late_text, view=self)
        return self.choice


class Confirmation(Question):
    """Asks yes or no."""

    def __init__(
        self,
        interaction: BotInteraction,
        yes: str,
        no: str,
        wait_s: float,
        style: discord.ButtonStyle = discord.ButtonStyle.danger,
    ) -> None:
        super().__init__(interaction, wait_s)
        self.accept.label, self.decline.label = yes, no
        self.accept.style = style
        self.is_yes = False

    @discord.ui.button()
    async def accept(
        self, interaction: BotInteraction, _: discord.ui.Button["Confirmation"]
    ) -> None:
        """Store the answer yes, and remove the buttons."""
        self.is_yes = True
        await self.decline.callback(interaction)

    @discord.ui.button()
    async def decline(
        self, interaction: BotInteraction, _: discord.ui.Button["Confirmation"]
    ) -> None:
        """Remove the buttons."""
        await interaction.response.edit_message(view=None)
        self.stop()

    async def ask(self, text: str, embed: discord.Embed | None = None) -> bool | None:
        """Return whether the answer is yes; None if there is no answer in time."""
        new_embed = discord.utils.MISSING if embed is None else embed
        await self.asked_by.edit_original_response(content=text, embed=new_embed, view=self)
        return None if await self.wait() else self.is_yes


class Form(discord.ui.Modal):
    """A modal that explains its errors."""

    async def on_error(  # type: ignore[override]
        self, interaction: BotInteraction, error: Exception
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)
