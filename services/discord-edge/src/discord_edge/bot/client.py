"""The bot itself: its commands, synced when they changed, and what they stand on."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import discord
from discord import app_commands
from discord.ext import commands

from discord_edge.bot.asking import Edge, Here, fail
from discord_edge.bot.cancelling import CancelButton
from discord_edge.bot.drawing import reaching
from discord_edge.bot.groups import groups
from discord_edge.bot.leaderboards import ping
from discord_edge.bot.library import guarded
from discord_edge.bot.marks import Marks
from discord_edge.bot.paging import PageButton
from discord_edge.bot.resubmitting import CompareButton, ResubmitButton
from discord_edge.bot.rooms import DiscordRooms
from discord_edge.domain.breaker import Breaker
from discord_edge.postgres import PostgresPosts
from discord_edge.service.boards import Boards
from discord_edge.service.entering import Entering
from discord_edge.service.following import Following, persist
from discord_edge.service.memory import Memory
from discord_edge.service.office import Office
from discord_edge.service.trends import Trends
from discord_edge.settings import PREFIX
from shared.errors import Failed, Refused
from shared.lifecycle import Life

# Each try counts towards what Discord bans for, so they come slowly.
LOGIN_PAUSE_S_MAX = 60.0
# Discord takes the token from a bot that begins more than 1000 sessions a day; whoever starts the
# process again at once is not to be the cause.
REFUSED_S = 120.0
FINAL = (Refused, discord.LoginFailure, discord.PrivilegedIntentsRequired, discord.ConnectionClosed)
WRONG_TOKEN = 4004

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Behind:
    """What the bot stands on."""

    api: Office
    boards: Boards
    posts: PostgresPosts
    guild: int
    places: frozenset[int]
    staff: Mapping[int, str]
    per_problem: bool = False


class Tree(app_commands.CommandTree[Edge]):
    """What goes wrong is told in one sentence, without details."""

    async def on_error(self, here: Here, error: app_commands.AppCommandError) -> None:
        """Say what went wrong."""
        await fail(here, getattr(error, "original", error))


class EdgeBot(Edge):
    """The bot; it asks for no privileged intent, and mentions nobody."""

    def __init__(self, behind: Behind) -> None:
        super().__init__(
            command_prefix=commands.when_mentioned,
            help_command=None,
            intents=discord.Intents(guilds=True),
            tree_cls=Tree,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self.api, self.boards, self.places = behind.api, behind.boards, behind.places
        self.guild_id, self.staff, self._posts = behind.guild, behind.staff, behind.posts
        self.marks = Marks()
        rooms, posts = DiscordRooms(self, self.marks), behind.posts
        entering = Entering(behind.api, rooms, posts, behind.per_problem)
        self.following = Following(behind.api, rooms, posts, entering)
        self.memory = Memory(behind.api)
        self.trends = Trends(behind.api)

    async def setup_hook(self) -> None:
        """Before the gateway: buttons of former processes, commands, what was open."""
        self.add_dynamic_items(PageButton, CancelButton, ResubmitButton, CompareButton)
        here = discord.Object(self.guild_id)
        # A try before may have come as far as here.
        self.tree.clear_commands(guild=here)
        for one in groups(set(self.staff.values()), has_local=self.local is not None):
            self.tree.add_command(one, guild=here)
        self.tree.add_command(ping, guild=here)
        await self._sync(here)
        await self.marks.look(self)
        await self.following.resume()
        await self.sending.resume()
        await self.publishing.resume()

    async def _sync(self, guild: discord.Object) -> None:
        """Tell Discord of the commands, if it was told of others before."""
        said = [one.to_dict(self.tree) for one in self.tree.get_commands(guild=guild)]
        text = json.dumps([self.application_id, said], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = str(guild.id)
        if await self._posts.synced(name) != digest:
            await self.tree.sync(guild=guild)
            await self._posts.keep_synced(name, digest)

    async def _serve(self, token: str, life: Life) -> None:
        """Log in as soon as Discord lets us, and stay. Errors: what it will not do for us."""
        self.http.http_trace = guarded(Breaker(), self.http.http_trace)
        try:
            await persist(lambda: self._enter(token), LOGIN_PAUSE_S_MAX)
            await persist(self._join, LOGIN_PAUSE_S_MAX)
        except FINAL as error:
            why = refusal(error)
            life.ail("discord", why)
            _log.error("%s; the process ends in %.0f s", why, REFUSED_S, exc_info=error)
            await asyncio.sleep(REFUSED_S)
            raise

    async def _enter(self, token: str) -> None:
        try:
            with reaching():
                await self.login(token)
        except (Failed, Refused):
            # What was opened for this try; the next one begins anew.
            await self.http.close()
            self.http.connector = aiohttp.TCPConnector(limit=0)
            raise

    async def _join(self) -> None:
        """Connect, and stay. Errors: Failed until there was a gateway once."""
        try:
            await self.connect()
        except AttributeError as error:
            # discord.py goes on where it was, even if it never was anywhere.
            if self.ws is not None:
                raise
            raise Failed("Discord's gateway does not answer") from error

    async def run_until(self, token: str, life: Life) -> None:
        """Serve until it is to stop."""
        running = asyncio.create_task(self._serve(token, life))
        ending = asyncio.create_task(life.stopping.wait())
        try:
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            ending.cancel()
            for one in (self.sending, self.following, self.publishing):
                await one.stop()
            await self.close()
            running.cancel()
            await asyncio.gather(running, ending, return_exceptions=True)


def refusal(error: BaseException) -> str:
    """What Discord says no to, and what an operator does about it."""
    code = getattr(error, "code", None)
    if isinstance(error, discord.LoginFailure) or code == WRONG_TOKEN:
        return f"Discord does not know the token: set {PREFIX}_TOKEN to the bot's (docs/discord.md)"
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return "Discord asks for an intent that this bot does without: see docs/discord.md"
    if isinstance(error, Refused):
        return f"{error.reason}: is the bot in the server of {PREFIX}_GUILD? See docs/discord.md"
    return f"Discord ended the connection: {error}"
