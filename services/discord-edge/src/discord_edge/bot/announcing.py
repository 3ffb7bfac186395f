"""What everybody reads: lines in a channel, threads below them, posts in a forum."""

import asyncio
import logging
from typing import Literal

import discord

from discord_edge.bot.drawing import reaching
from discord_edge.bot.recalling import is_own
from discord_edge.bot.setup import Places, SettingUp
from discord_edge.service.public import Ledger
from shared.errors import Failed, Refused

THREAD_MINUTES: Literal[1440] = 1440
POST_MINUTES: Literal[10080] = 10080
HAS_A_THREAD = 160004
POSTS_MAX = 1000
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
        if guild.unavailable:
            # Nothing of it is known yet: what is there would be made a second time.
            raise Failed(f"Discord has not told of the server {self._guild} yet")
        return await SettingUp(guild, self._ledger).places()

    async def lines(self) -> str:
        """Where results and podiums are told."""
        return str((await self._there()).submissions)

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

    async def open(self, name: str, text: str, *, is_first: bool) -> str:
        """The post with a name, a new one if there is none; the first calls who asked for it."""
        place = await self._there()
        forum = self._forum(place)
        with reaching():
            # A process before made it and was killed, or its answer was lost.
            for one in await forum.guild.active_threads():
                is_there = one.parent_id == forum.id and one.name == name
                if is_there and is_own(self._client, one.owner_id):
                    return str(one.id)
            mentions = discord.AllowedMentions.none()
            if is_first and place.participants is not None:
                text = f"{text}\n<@&{place.participants}>"
                mentions = discord.AllowedMentions(roles=[discord.Object(place.participants)])
            made = await forum.create_thread(
                name=name,
                content=text,
                auto_archive_duration=POST_MINUTES,
                allowed_mentions=mentions,
            )
        return str(made.thread.id)

    async def posts(self) -> dict[str, str]:
        """The names of the bot's own posts, by their ids, those that are closed too."""
        place = await self._there()
        forum = self._forum(place)
        with reaching():
            closed = [one async for one in forum.archived_threads(limit=POSTS_MAX)]
        return {
            str(one.id): one.name
            for one in (*forum.threads, *closed)
            if is_own(self._client, one.owner_id)
        }

    async def change(self, thread: str, text: str) -> None:
        """Another text for the first message of a post."""
        await self._there()
        place = self._client.get_partial_messageable(int(thread))
        with reaching():
            await place.get_partial_message(int(thread)).edit(content=text)

    def _forum(self, place: Places) -> discord.ForumChannel:
        forum = self._client.get_channel(place.central)
        if not isinstance(forum, discord.ForumChannel):
            raise Refused("no_channel", "the forum is gone")
        return forum

    async def _there(self) -> Places:
        await self._client.wait_until_ready()
        if self._places is None:
            raise Failed("the places are not set up yet")
        return self._places
