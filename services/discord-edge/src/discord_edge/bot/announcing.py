"""What everybody reads: lines in a channel, threads below them, posts in a forum."""

import asyncio
import logging
from typing import Literal

import discord

from discord_edge.bot.rooms import LOOKED_THROUGH, reaching
from discord_edge.bot.setup import Places, SettingUp
from discord_edge.service.public import Ledger
from shared.errors import Failed, Refused

THREAD_MINUTES: Literal[1440] = 1440
POST_MINUTES: Literal[10080] = 10080
HAS_A_THREAD = 160004
READY_STEP_S = 0.2
AGAIN_S = 10.0

_log = logging.getLogger(__name__)


class DiscordTown:
    """A Town over a client that is connected, or will be; nobody is mentioned but by an opening."""

    def __init__(self, client: discord.Client, guild: int, ledger: Ledger) -> None:
        self._client, self._guild, self._ledger = client, guild, ledger
        self._places: Places | None = None

    async def found(self) -> None:
        """Wait until every place is there, made if need be."""
        while self._places is None:
            while not self._client.is_ready():  # noqa: ASYNC110 - before login there is no event
                await asyncio.sleep(READY_STEP_S)
            try:
                self._places = await self._set_up()
            except (Refused, Failed) as trouble:
                _log.error(
                    "nothing is announced yet: let the bot make channels (Manage Channels), "
                    "see docs/discord.md; tried again in %.0f s: %s",
                    AGAIN_S,
                    trouble,
                )
                await asyncio.sleep(AGAIN_S)

    async def _set_up(self) -> Places:
        guild = self._client.get_guild(self._guild)
        if guild is None:
            raise Refused("no_guild", f"the bot is not in the server {self._guild}: invite it")
        return await SettingUp(guild, self._ledger).places()

    async def say(self, text: str, nonce: str, sign: str) -> str:
        """A line for everybody, once for a nonce and for a sign at its end. Its id."""
        place = await self._there()
        channel = self._client.get_partial_messageable(place.submissions)
        with reaching():
            if sign:
                async for one in channel.history(limit=LOOKED_THROUGH):
                    if one.content.endswith(sign) and one.author == self._client.user:
                        return str(one.id)
            return str((await channel.send(text, nonce=nonce)).id)

    async def begin(self, message: str, name: str) -> str:
        """The thread that begins at a line. Its id."""
        channel = self._client.get_channel((await self._there()).submissions)
        if not isinstance(channel, discord.TextChannel):
            raise Refused("no_channel", "the channel of submissions is gone")
        held = channel.get_partial_message(int(message))
        with reaching():
            try:
                thread = await held.create_thread(name=name, auto_archive_duration=THREAD_MINUTES)
            except discord.HTTPException as error:
                if error.code != HAS_A_THREAD:
                    raise
                return message
            return str(thread.id)

    async def tell(self, thread: str, text: str, nonce: str) -> str:
        """A message in a thread or post, once for a nonce. Its id."""
        await self._there()
        place = self._client.get_partial_messageable(int(thread))
        with reaching():
            return str((await place.send(text, nonce=nonce)).id)

    async def open(self, name: str, text: str) -> str:
        """The post with a name, a new one if there is none. Its id."""
        place = await self._there()
        forum = self._client.get_channel(place.central)
        if not isinstance(forum, discord.ForumChannel):
            raise Refused("no_channel", "the forum is gone")
        for one in forum.threads:
            # A process before made it and was killed before it could say so.
            if one.name == name and one.owner_id == self._client.application_id:
                return str(one.id)
        mentions = discord.AllowedMentions.none()
        if place.participants is not None:
            text = f"{text}\n<@&{place.participants}>"
            mentions = discord.AllowedMentions(roles=[discord.Object(place.participants)])
        with reaching():
            made = await forum.create_thread(
                name=name,
                content=text,
                auto_archive_duration=POST_MINUTES,
                allowed_mentions=mentions,
            )
        return str(made.thread.id)

    async def change(self, thread: str, text: str) -> None:
        """Another text for the first message of a post."""
        await self._there()
        place = self._client.get_partial_messageable(int(thread))
        with reaching():
            await place.get_partial_message(int(thread)).edit(content=text)

    async def _there(self) -> Places:
        await self._client.wait_until_ready()
        if self._places is None:
            raise Failed("the places are not set up yet")
        return self._places
