"""A small bot on the unmodified discord.py, in a process of its own: it meets all that ours will.

`python -m tests.discord.bot` reads BOT_TOKEN and BOT_GUILD, and where Discord is: BOT_API (its
URLs are set, way A) or BOT_CONNECT_TO (its host names are resolved to one address, way B).
"""

import asyncio
import io
import os
import socket

import aiohttp
import discord
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from discord import app_commands
from discord.ext import commands

from tests.discord.views import GpuMenu, Naming, PageButton, boards, page

MODES = ("test", "ranked")
PATIENCE_S = float(os.environ.get("BOT_HEARTBEAT_S_MAX", "60"))
LATE_S = 0.3


class ConnectTo(AbstractResolver):
    """Every host name is one address."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)

    async def resolve(
        self,
        host: str,
        port: int = 0,  # noqa: ARG002 - the library's
        family: socket.AddressFamily = socket.AF_INET,
    ) -> list[ResolveResult]:
        found = ResolveResult(
            hostname=host, host=self.host, port=self.port, family=family, proto=0, flags=0
        )
        return [found]

    async def close(self) -> None:
        pass


def connector() -> aiohttp.BaseConnector | None:
    """How Discord is reached; a connector needs a running loop."""
    if address := os.environ.get("BOT_CONNECT_TO"):
        return aiohttp.TCPConnector(limit=0, resolver=ConnectTo(address))
    url = os.environ.get("BOT_API")
    if url:
        discord.http.Route.BASE = f"{url}/api/v10"
        gateway = yarl.URL(url.replace("http", "ws", 1) + "/")
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway
    return None


Here = discord.Interaction["Bot"]


async def tour(guild: discord.Guild, role: discord.Role, member: discord.Member) -> list[str]:
    """What a bot does to set a server up and to look after it, by discord.py's own words."""
    hidden: dict[discord.Role | discord.Member | discord.Object, discord.PermissionOverwrite]
    hidden = {guild.default_role: discord.PermissionOverwrite(view_channel=False)}
    category = await guild.create_category("Leaderboards", overwrites=hidden)
    text = await category.create_text_channel("news", topic="what is new")
    await text.edit(topic="what was new")
    tags = [discord.ForumTag(name="open"), discord.ForumTag(name="closed")]
    forum = await guild.create_forum("problems", category=category, available_tags=tags)
    post = await forum.create_thread(
        name="matmul_v1", content="about", applied_tags=[forum.available_tags[0]]
    )
    await post.thread.edit(applied_tags=[forum.available_tags[1]], archived=True, locked=True)
    await member.add_roles(role)
    message = await text.send("first", file=discord.File(io.BytesIO(b"log"), "log.txt"))
    thread = await message.create_thread(name="about the first")
    await thread.send(embed=discord.Embed(title="t", colour=discord.Colour.green()))
    await thread.edit(archived=True)
    found = await text.fetch_message(message.id)
    await found.reply("second", mention_author=False)
    history = [one.content async for one in text.history(limit=5)]
    archived = [one.name async for one in text.archived_threads()]
    archived += [one.name async for one in forum.archived_threads()]
    again = await guild.fetch_channel(forum.id)
    active = [one.name for one in await guild.active_threads()]
    await found.delete()
    await text.delete()
    await role.delete()
    return [*history, *archived, again.name, f"{len(active) >= 0}"]


class Leaderboard(app_commands.Group):
    """The commands."""

    def __init__(self) -> None:
        super().__init__(name="leaderboard", description="Submit and look", guild_only=True)
        self.add_command(Submit())

    @app_commands.command(description="One leaderboard")
    @app_commands.autocomplete(leaderboard_name=boards)
    async def show(self, here: Here, leaderboard_name: str) -> None:
        embed, view = page(leaderboard_name, 0)
        await here.response.send_message(embed=embed, view=view)

    @app_commands.command(description="A new leaderboard")
    @app_commands.checks.has_role("Leaderboard Creator")
    async def create(self, here: Here) -> None:
        await here.response.send_modal(Naming())

    @app_commands.command(description="Fail, to see what is said of it")
    async def crash(self, here: Here) -> None:  # noqa: ARG002 - the library's
        raise RuntimeError("a secret detail")

    @app_commands.command(description="Answer too late")
    async def late(self, here: Here) -> None:
        await asyncio.sleep(LATE_S)
        await here.response.send_message("too late")

    @app_commands.command(description="Promise at once, answer after the token's end")
    async def later(self, here: Here) -> None:
        await here.response.defer(ephemeral=True)
        await asyncio.sleep(LATE_S)
        await here.edit_original_response(content="too late")

    @app_commands.command(description="Post in a forum, once, though told twice")
    async def announce(self, here: Here, forum: discord.ForumChannel) -> None:
        await here.response.defer()
        told = await forum.create_thread(
            name="sort_v2", content="opens", applied_tags=forum.available_tags[:1]
        )
        for _ in range(2):
            message = {"content": "@everyone, it is open", "nonce": "n1", "enforce_nonce": True}
            message |= {"allowed_mentions": {"parse": []}}
            route = discord.http.Route(
                "POST", "/channels/{channel_id}/messages", channel_id=told.thread.id
            )
            await here.client.http.request(route, json=message)
        await told.thread.edit(archived=True)
        await here.followup.send(f"{told.thread.mention} is there")

    @app_commands.command(description="Set a server up")
    async def tour(self, here: Here) -> None:
        await here.response.defer()
        assert here.guild is not None
        assert isinstance(here.user, discord.Member)
        role = await here.guild.create_role(name="Leaderboard Participant", colour=0xE91E63)
        await here.followup.send(" | ".join(await tour(here.guild, role, here.user)))

    @app_commands.command(description="Tell somebody")
    async def tell(self, here: Here, user: discord.Member, loudly: bool = False) -> None:
        try:
            await user.send("HEY" if loudly else "hey")
        except discord.Forbidden as error:
            await here.response.send_message(f"refused: {error.code}", ephemeral=True)
            return
        await here.response.send_message("told", ephemeral=True)


class Submit(app_commands.Group):
    """The modes, each with the same parameters."""

    def __init__(self) -> None:
        super().__init__(name="submit", description="Submit a kernel")
        for mode in MODES:
            self._add(mode)

    def _add(self, mode: str) -> None:
        @app_commands.command(name=mode, description=f"A {mode} submission")
        @app_commands.autocomplete(leaderboard_name=boards)
        async def submit(here: Here, script: discord.Attachment, leaderboard_name: str) -> None:
            await here.response.defer(ephemeral=True, thinking=True)
            source = await script.read()
            said = f"`{script.filename}`, {len(source)} bytes. Where should it run?"
            await here.followup.send(said, view=GpuMenu(leaderboard_name, mode, source))

        self.add_command(submit)


class Tree(app_commands.CommandTree["Bot"]):
    """What goes wrong is told in one sentence, without details."""

    async def on_error(self, here: Here, error: app_commands.AppCommandError) -> None:
        is_refusal = isinstance(error, app_commands.CheckFailure)
        said = "You may not do that." if is_refusal else "Something went wrong."
        send = here.followup.send if here.response.is_done() else here.response.send_message
        try:
            await send(said, ephemeral=True)
        except discord.HTTPException:
            return


class Bot(commands.Bot):
    """The bot; it asks for no privileged intent."""

    def __init__(self, guild_id: int) -> None:
        super().__init__(
            command_prefix=commands.when_mentioned,
            intents=discord.Intents(guilds=True),
            tree_cls=Tree,
            allowed_mentions=discord.AllowedMentions.none(),
            connector=connector(),
            heartbeat_timeout=PATIENCE_S,
        )
        self.guild_id = guild_id

    async def setup_hook(self) -> None:
        self.add_dynamic_items(PageButton)
        here = discord.Object(self.guild_id)
        self.tree.add_command(Leaderboard(), guild=here)
        await self.tree.sync(guild=here)


async def main() -> None:
    async with Bot(int(os.environ["BOT_GUILD"])) as bot:
        await bot.start(os.environ["BOT_TOKEN"])


if __name__ == "__main__":
    discord.utils.setup_logging()
    asyncio.run(main())
