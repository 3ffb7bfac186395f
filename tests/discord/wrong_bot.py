"""A bot with one mistake, which WRONG names: what discord.py makes of Discord's refusal."""

import asyncio
import os

import discord
from discord import app_commands

from tests.discord.bot import connector


async def nothing(here: discord.Interaction) -> None:
    """Do nothing."""


class Wrong(discord.Client):
    """Wrong in one way."""

    def __init__(self, how: str) -> None:
        intents = discord.Intents.all() if how == "intents" else discord.Intents(guilds=True)
        super().__init__(intents=intents, connector=connector())
        self.tree = app_commands.CommandTree(self)
        self.guild = discord.Object(int(os.environ["BOT_GUILD"]))
        if how == "command":
            said = "d" * 101
            self.tree.command(name="long", description=said, guild=self.guild)(nothing)

    async def setup_hook(self) -> None:
        if self.tree.get_commands(guild=self.guild):
            await self.tree.sync(guild=self.guild)


async def main() -> None:
    how = os.environ["WRONG"]
    async with Wrong(how) as bot:
        await bot.start("wrong" if how == "token" else os.environ["BOT_TOKEN"])


if __name__ == "__main__":
    asyncio.run(main())
