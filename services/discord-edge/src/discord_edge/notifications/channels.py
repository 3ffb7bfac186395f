"""The public channels for notifications, the forum, and the messages to one participant."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import discord

from discord_edge.bot.discord_py import connected, is_own, translate_discord_errors
from discord_edge.bot.interactions import BotButton, BotInteraction, CommandBot, Form, defer, reply
from discord_edge.notifications.postgres import PendingMessage, PostgresLedger
from discord_edge.notifications.texts import Notice
from shared.errors import Failed, Refused

CATEGORY, CENTRAL, GENERAL, SUBMISSIONS = "Leaderboards", "central", "general", "submissions"
PARTICIPANT = "Leaderboard Participant"
ROLES = {"Leaderboard Admin": 0x9B59B6, "Leaderboard Creator": 0x3498DB, PARTICIPANT: 0xEB459F}
ChannelOrRole = discord.abc.GuildChannel | discord.Role
Create = Callable[[], Awaitable[ChannelOrRole]]
ListAll = Callable[[], Awaitable[Sequence[ChannelOrRole]]]
SERVER_ERROR = 500
AUDIT_REASON = "Warpboard: channels and roles for its leaderboards"
THREAD_MINUTES: Literal[1440] = 1440
POST_MINUTES: Literal[10080] = 10080
THREAD_EXISTS = 160004
READY_STEP_S = 0.2
# Discord bans who is refused too often: the pauses grow.
AGAIN_S_MIN, AGAIN_S_MAX = 0.5, 10.0
APPEAL_MAX = 3000

_log = logging.getLogger(__name__)


class ServerChannels(NamedTuple):
    """The ids of the channels, and of the role to mention, if any."""

    central: int
    general: int
    submissions: int
    participants: int | None


@dataclass(frozen=True)
class ServerSetup:
    """Finds the channels and roles of a server, and creates what is missing."""

    guild: discord.Guild
    ledger: PostgresLedger

    async def ensure_channels(self) -> ServerChannels:
        """Create what is missing, and return the ids. Raises `Refused` without a permission."""
        guild = self.guild
        category_id = await self._ensure(
            "channel", CATEGORY, lambda: guild.create_category(CATEGORY, reason=AUDIT_REASON)
        )
        channel = guild.get_channel(category_id)
        category = channel if isinstance(channel, discord.CategoryChannel) else None

        def text_channel(name: str) -> Create:
            return lambda: guild.create_text_channel(name, category=category, reason=AUDIT_REASON)

        def role(name: str) -> Create:
            colour = discord.Colour(ROLES[name])
            return lambda: guild.create_role(name=name, colour=colour, reason=AUDIT_REASON)

        forum = guild.create_forum
        central = await self._ensure(
            "channel", CENTRAL, lambda: forum(CENTRAL, category=category, reason=AUDIT_REASON)
        )
        general = await self._ensure("channel", GENERAL, text_channel(GENERAL))
        submissions = await self._ensure("channel", SUBMISSIONS, text_channel(SUBMISSIONS))
        try:
            roles = {name: await self._ensure("role", name, role(name)) for name in ROLES}
        except Refused as refused:
            _log.warning("no roles are created: give the bot Manage Roles (%s)", refused.reason)
            roles = {}
        return ServerChannels(central, general, submissions, roles.get(PARTICIPANT))

    async def _ensure(self, kind: Literal["channel", "role"], name: str, create: Create) -> int:
        guild, key = self.guild, f"{kind}:{self.guild.id}:{name}"
        identity = await self.ledger.made(key)
        existing = (*guild.channels, *guild.roles)
        if identity is not None and any(item.id == int(identity) for item in existing):
            return int(identity)
        if kind == "role" and (known := discord.utils.get(guild.roles, name=name)) is not None:
            # The server had it before, and by its name it grants what it grants.
            await self.ledger.keep(key, str(known.id))
            return known.id
        list_all = guild.fetch_channels if kind == "channel" else guild.fetch_roles
        return await self._create(key, name, create, list_all)

    async def _create(self, key: str, name: str, create: Create, list_all: ListAll) -> int:
        """Create a channel or role once, and return its id. Raises `Refused` and `Failed`."""
        room = str(self.guild.id)
        pending = await self.ledger.pending_message(key, room)
        with translate_discord_errors():
            created = None
            if pending is not None and pending.text:
                # An earlier request may have succeeded although its answer was lost.
                newer = [item for item in await list_all() if item.id > int(pending.after)]
                created = next((item for item in newer if item.name == name), None)
            else:
                newest = max((item.id for item in await list_all()), default=0)
                pending = PendingMessage(name, str(newest))
                await self.ledger.save_pending_message(key, room, pending)
            try:
                created = created or await create()
            except discord.HTTPException as error:
                if error.status < SERVER_ERROR:
                    # Nothing was created, so anything with this name from now on is not ours.
                    await self.ledger.save_pending_message(key, room, PendingMessage("", "0"))
                raise
        await self.ledger.keep(key, str(created.id))
        _log.info("%s was created: %d", key, created.id)
        return created.id


class DiscordPublicChannels:
    """The channels that everybody sees, over a client that connects later.

    Only first posts mention a role. Methods raise `Failed` for what may work later and `Refused`
    for what never will.
    """

    def __init__(self, client: discord.Client, guild: int, ledger: PostgresLedger) -> None:
        self._client, self._guild, self._ledger = client, guild, ledger
        self._channels: ServerChannels | None = None

    async def ensure_exist(self) -> None:
        """Wait until all channels exist, and create those that are missing."""
        pause_s = AGAIN_S_MIN
        while self._channels is None:
            while not self._client.is_ready():  # noqa: ASYNC110 - before login there is no event
                await asyncio.sleep(READY_STEP_S)
            try:
                self._channels = await self._set_up()
            except (Refused, Failed) as error:
                _log.error(
                    "nothing is announced yet: allow the bot to manage channels, see "
                    "docs/discord.md; trying again in %.1f s: %s",
                    pause_s,
                    error,
                )
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)

    async def _set_up(self) -> ServerChannels:
        guild = self._client.get_guild(self._guild)
        if guild is None:
            raise Refused("no_guild", f"the bot is not in the server {self._guild}: invite it")
        if guild.unavailable:
            # Its channels are not known yet: existing ones would be created a second time.
            raise Failed(f"Discord has not sent the server {self._guild} yet")
        return await ServerSetup(guild, self._ledger).ensure_channels()

    async def results_channel(self) -> str:
        """Return the channel where results and podiums are announced."""
        return str((await self._wait_for_channels()).submissions)

    async def general_channel(self) -> str:
        """Return the channel that has no other purpose."""
        return str((await self._wait_for_channels()).general)

    async def update_message(self, room: str, identity: str, text: str) -> bool:
        """Give a message this text, and return whether the message still exists."""
        await self._wait_for_channels()
        channel = self._client.get_partial_messageable(int(room))
        with translate_discord_errors():
            try:
                message = await channel.fetch_message(int(identity))
            except discord.NotFound:
                return False
            if message.content != text:
                await message.edit(content=text)
        return True

    async def start_thread(self, message: str, name: str) -> str:
        """Start a thread at an announcement, and return its id."""
        channel = self._client.get_channel((await self._wait_for_channels()).submissions)
        if not isinstance(channel, discord.TextChannel):
            raise Refused("no_channel", "the channel of submissions is gone")
        partial = channel.get_partial_message(int(message))
        with translate_discord_errors():
            try:
                thread = await partial.create_thread(
                    name=name, auto_archive_duration=THREAD_MINUTES
                )
            except discord.HTTPException as error:
                if error.code != THREAD_EXISTS:
                    raise
                return message
            return str(thread.id)

    async def send(self, thread: str, text: str, nonce: str) -> str:
        """Send a message to a channel, thread or post, once per nonce, and return its id."""
        await self._wait_for_channels()
        channel = self._client.get_partial_messageable(int(thread))
        with translate_discord_errors():
            return str((await channel.send(text, nonce=nonce)).id)

    async def open_post(self, name: str, text: str, *, is_first: bool) -> str:
        """Return the post with a name; a new one mentions its subscribers if it is the first."""
        channels = await self._wait_for_channels()
        forum = self._forum(channels)
        with translate_discord_errors():
            # A killed process may have created it, or Discord's answer may have been lost.
            for thread in await forum.guild.active_threads():
                matches = thread.parent_id == forum.id and thread.name == name
                if matches and is_own(self._client, thread.owner_id):
                    return str(thread.id)
            mentions = discord.AllowedMentions.none()
            if is_first and channels.participants is not None:
                text = f"{text}\n<@&{channels.participants}>"
                mentions = discord.AllowedMentions(roles=[discord.Object(channels.participants)])
            post = await forum.create_thread(
                name=name,
                content=text,
                auto_archive_duration=POST_MINUTES,
                allowed_mentions=mentions,
            )
        return str(post.thread.id)

    async def edit_post(self, thread: str, text: str) -> None:
        """Replace the first message of a post."""
        await self._wait_for_channels()
        channel = self._client.get_partial_messageable(int(thread))
        with translate_discord_errors():
            await channel.get_partial_message(int(thread)).edit(content=text)

    def _forum(self, channels: ServerChannels) -> discord.ForumChannel:
        forum = self._client.get_channel(channels.central)
        if not isinstance(forum, discord.ForumChannel):
            raise Refused("no_channel", "the forum is gone")
        return forum

    async def _wait_for_channels(self) -> ServerChannels:
        await self._client.wait_until_ready()
        if self._channels is None:
            raise Failed("the channels are not set up yet")
        return self._channels


class AppealModal(Form, title="Appeal"):
    """Asks why a decision should be reviewed again."""

    text: discord.ui.TextInput["AppealModal"] = discord.ui.TextInput(
        label="Why should this be reviewed again?",
        style=discord.TextStyle.paragraph,
        max_length=APPEAL_MAX,
    )

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    async def on_submit(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """File the appeal."""
        api, path = await defer(interaction), ("submissions", self.number, "appeal")
        await api.request(object, "POST", *path, text=self.text.value)
        text = f"Filed: #{self.number} will be reviewed again, and you will be notified."
        await reply(interaction, text)


class AppealButton(BotButton[CommandBot], template=r"appeal:(?P<number>[0-9]{1,15})"):
    """Opens the appeal; the platform checks whose submission it is."""

    def __init__(self, number: int | str) -> None:
        self.number = int(number)
        super().__init__("Appeal", f"appeal:{number}")

    async def press(self, interaction: BotInteraction) -> None:
        """Open the modal."""
        await interaction.response.send_modal(AppealModal(self.number))


async def send_notice(
    client: discord.Client, room: str, user_id: str, notice: Notice, nonce: str
) -> str:
    """Send a message that mentions only this user, once per nonce, and return its id."""
    mentions = discord.AllowedMentions(users=[discord.Object(int(user_id))])
    view = discord.utils.MISSING
    if notice.appeal is not None:
        view = discord.ui.View(timeout=None).add_item(AppealButton(notice.appeal))
    async with connected(client):
        channel = client.get_partial_messageable(int(room))
        message = await channel.send(notice.text, nonce=nonce, allowed_mentions=mentions, view=view)
        return str(message.id)
