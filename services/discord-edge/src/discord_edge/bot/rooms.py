"""Threads and messages, by the bot's own token: nothing here ends with an interaction."""

from typing import Literal

import discord

from discord_edge.bot.cancelling import cancels, has_cancel
from discord_edge.bot.drawing import BODY_MAX, embed, files, reaching
from discord_edge.bot.marks import Marks
from discord_edge.bot.recalling import is_own, own
from discord_edge.bot.resubmitting import afterwards
from discord_edge.domain.report import Card, fitted
from discord_edge.domain.status import Status
from discord_edge.service.ports import Post
from shared.errors import Refused

ARCHIVE_MINUTES: Literal[1440] = 1440
TOO_MANY_THREADS = 160006


class DiscordRooms:
    """Rooms over a client that is connected, or will be."""

    def __init__(self, client: discord.Client, marks: Marks) -> None:
        self._client, self._marks = client, marks
        # Names of threads that may be there, for nobody heard the answer.
        self._unsure: set[str] = set()

    async def active(self, channel: str) -> int:
        """How many threads are open on the server of a channel, as Discord told us."""
        await self._client.wait_until_ready()
        with reaching():
            found = await self._channel(channel)
        guild = getattr(found, "guild", None)
        return len(guild.threads) if isinstance(guild, discord.Guild) else 0

    async def reopen(self, room: str, post: Post) -> None:
        """Open a thread of before to its person; letters, and what is locked, are Refused."""
        await self._client.wait_until_ready()
        with reaching():
            thread = await self._channel(room)
            if not isinstance(thread, discord.Thread) or thread.locked:
                raise Refused("discord_refused", "no thread, or a locked one")
            if thread.archived:
                await thread.edit(archived=False)
            # Who left it finds no way back by themselves.
            await thread.add_user(discord.Object(int(post.person)))

    async def enter(self, post: Post, name: str) -> str:
        """The private thread of a post, a new one, or its person's letters where none can be."""
        await self._client.wait_until_ready()
        person = discord.Object(int(post.person))
        with reaching():
            parent = await self._channel(post.channel)
            if not isinstance(parent, discord.TextChannel):
                return await self.letters(post)
            try:
                thread = await self._opened(parent, name)
            except discord.HTTPException as error:
                is_closed = isinstance(error, discord.Forbidden) or error.code == TOO_MANY_THREADS
                if not is_closed:
                    raise
                self._unsure.discard(name)
                return await self.letters(post)
            await thread.add_user(person)
        return str(thread.id)

    async def _opened(self, parent: discord.TextChannel, name: str) -> discord.Thread:
        """The thread with a name that an answer which never came left, or a new one."""
        known = parent.threads
        if name in self._unsure:
            # The gateway, by which we would have heard of it, may be away as well.
            active = await parent.guild.active_threads()
            known = [one for one in active if one.parent_id == parent.id]
        for one in known:
            if one.name == name and is_own(self._client, one.owner_id):
                return one
        self._unsure.add(name)
        thread = await parent.create_thread(
            name=name,
            type=discord.ChannelType.private_thread,
            auto_archive_duration=ARCHIVE_MINUTES,
            invitable=False,
        )
        self._unsure.discard(name)
        return thread

    async def letters(self, post: Post) -> str:
        """Where its person gets letters."""
        await self._client.wait_until_ready()
        with reaching():
            user = await self._client.fetch_user(int(post.person))
            return str((await user.create_dm()).id)

    async def say(self, room: str, text: str, nonce: str, post: Post) -> str:
        """A message by which a submission can be cancelled, a new one if there is none. Its id."""
        await self._client.wait_until_ready()
        place, view = self._place(room), cancels([post])
        with reaching():
            # Discord remembers a nonce for minutes, and may be away for longer.
            found = await own(self._client, room, lambda one: has_cancel(one, post))
            text = self._marks.drawn(text)
            return found or str((await place.send(text, nonce=nonce, view=view)).id)

    async def edit(self, room: str, message: str, status: Status, post: Post) -> None:
        """Where a submission is now; what is being cancelled, or over, is not cancelled again."""
        await self._client.wait_until_ready()
        held = self._place(room).get_partial_message(int(message))
        text = self._marks.drawn(status.text)
        with reaching():
            if status.is_over:
                await held.edit(content=text, view=None)
            elif status.is_cancelling:
                await held.edit(content=text, view=cancels([post], {post.number}))
            else:
                await held.edit(content=text)

    async def show(self, room: str, card: Card, nonce: str, post: Post) -> str:
        """A new message with the card of what is over, or the one that is there. Its id."""
        await self._client.wait_until_ready()
        place = self._place(room)
        with reaching():
            titled = await own(self._client, room, lambda one: _title(one) == card.title)
            if titled is not None:
                return titled
            card, view = fitted(card, self._file_bytes_max(room)), afterwards(post)
            drawn = embed(card)
            drawn.description = self._marks.drawn(drawn.description or "", BODY_MAX)
            sent = await place.send(embed=drawn, files=files(card), nonce=nonce, view=view)
            return str(sent.id)

    async def close(self, room: str) -> None:
        """Close a thread; who writes in it opens it again. Letters stay as they are."""
        await self._client.wait_until_ready()
        thread = self._client.get_channel(int(room))
        if isinstance(thread, discord.Thread) and not thread.archived:
            with reaching():
                await thread.edit(archived=True)

    def _file_bytes_max(self, room: str) -> int:
        """How large a file the server of a room takes now."""
        guild = getattr(self._client.get_channel(int(room)), "guild", None)
        limit = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES
        return guild.filesize_limit if isinstance(guild, discord.Guild) else limit

    def _place(self, room: str) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(int(room))

    async def _channel(self, identity: str) -> object:
        found = self._client.get_channel(int(identity))
        return found or await self._client.fetch_channel(int(identity))


def _title(message: discord.Message) -> str | None:
    return message.embeds[0].title if message.embeds else None
