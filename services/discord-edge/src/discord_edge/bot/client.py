"""The bot itself: its commands, synced when they changed, and what they stand on."""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import discord
import yarl
from discord import app_commands
from discord.ext import commands

from discord_edge.bot.asking import Edge, Here, fail
from discord_edge.bot.cancelling import CancelButton
from discord_edge.bot.groups import groups
from discord_edge.bot.leaderboards import ping
from discord_edge.bot.paging import PageButton
from discord_edge.bot.rooms import DiscordRooms, reaching
from discord_edge.postgres import PostgresPosts
from discord_edge.service.boards import Boards
from discord_edge.service.following import Following, persist
from discord_edge.service.office import Office
from discord_edge.service.sending import Sending
from shared.errors import Failed, Refused

# Each try counts towards what Discord bans for, so they come slowly.
LOGIN_PAUSE_S_MAX = 60.0


@dataclass(frozen=True)
class Behind:
    """What the bot stands on."""

    api: Office
    boards: Boards
    posts: PostgresPosts
    guild: int
    places: frozenset[int]
    staff: Mapping[int, str]


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
        self.following = Following(behind.api, DiscordRooms(self), behind.posts)
        self.sending = Sending(behind.api, behind.posts)

    async def setup_hook(self) -> None:
        """Before the gateway: buttons of former processes, commands, what was open."""
        self.add_dynamic_items(PageButton, CancelButton)
        here = discord.Object(self.guild_id)
        # A try before may have come as far as here.
        self.tree.clear_commands(guild=here)
        for one in groups(set(self.staff.values())):
            self.tree.add_command(one, guild=here)
        self.tree.add_command(ping, guild=here)
        await self._sync(here)
        await self.sending.resume()
        await self.following.resume()

    async def _sync(self, guild: discord.Object) -> None:
        """Tell Discord of the commands, if it was told of others before."""
        said = [one.to_dict(self.tree) for one in self.tree.get_commands(guild=guild)]
        text = json.dumps([self.application_id, said], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = str(guild.id)
        if await self._posts.synced(name) != digest:
            await self.tree.sync(guild=guild)
            await self._posts.keep_synced(name, digest)

    async def _serve(self, token: str) -> None:
        """Log in as soon as Discord lets us, and stay. Errors: LoginFailure for a wrong token."""
        await persist(lambda: self._enter(token), LOGIN_PAUSE_S_MAX)
        await self.connect()

    async def _enter(self, token: str) -> None:
        try:
            with reaching():
                await self.login(token)
        except (Failed, Refused):
            # What was opened for this try; the next one begins anew.
            await self.http.close()
            self.http.connector = aiohttp.TCPConnector(limit=0)
            raise

    async def run_until(self, token: str, stopping: asyncio.Event) -> None:
        """Serve until it is to stop."""
        running = asyncio.create_task(self._serve(token))
        ending = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            ending.cancel()
            await self.following.stop()
            await self.close()
            running.cancel()
            await asyncio.gather(running, ending, return_exceptions=True)


def turn_to(url: str) -> None:
    """Let discord.py find another Discord than the public one."""
    discord.http.Route.BASE = f"{url.rstrip('/')}/api/v10"
    gateway = yarl.URL(url.replace("http", "ws", 1).rstrip("/") + "/")
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway
