"""Threads and messages, by the bot's own token: nothing here ends with an interaction."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import aiohttp
import discord

from discord_edge.bot.cancelling import CancelButton
from discord_edge.domain.report import Card
from discord_edge.service.ports import Post
from shared.errors import Failed, Refused

ARCHIVE_MINUTES: Literal[1440] = 1440
TOO_MANY_THREADS = 160006
LOOKED_THROUGH = 50


@contextmanager
def reaching() -> Iterator[None]:
    """Discord's refusals as ours."""
    try:
        yield
    except (discord.NotFound, discord.Forbidden) as error:
        raise Refused("discord_refused", f"Discord says {error.code}: {error.text}") from error
    except discord.HTTPException as error:
        if 400 <= error.status < 500 and error.status != 429:
            raise Refused("discord_refused", f"Discord says {error.code}: {error.text}") from error
        raise Failed(f"Discord answered {error.status}") from error
    except (aiohttp.ClientError, OSError, TimeoutError, discord.DiscordServerError) as error:
        raise Failed(f"Discord does not answer: {type(error).__name__}") from error


def embed(card: Card) -> discord.Embed:
    """A card as Discord draws it."""
    found = discord.Embed(title=card.title[:250], description=card.body, colour=card.colour)
    if card.footer:
        found.set_footer(text=card.footer)
    return found


def files(card: Card) -> list[discord.File]:
    """What is attached to a card."""
    return [] if card.file is None else [discord.File(io.BytesIO(card.file[1]), card.file[0])]


class DiscordRooms:
    """Rooms over a client that is connected, or will be."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client

    async def enter(self, post: Post, name: str) -> str:
        """The private thread of a post, a new one, or its person's letters where none can be."""
        await self._client.wait_until_ready()
        person = discord.Object(int(post.person))
        with reaching():
            parent = await self._channel(post.channel)
            if not isinstance(parent, discord.TextChannel):
                return await self.letters(post)
            for one in parent.threads:
                # A process before made it and was killed before it could say so.
                if one.name == name and one.owner_id == self._client.application_id:
                    return str(one.id)
            try:
                thread = await parent.create_thread(
                    name=name,
                    type=discord.ChannelType.private_thread,
                    auto_archive_duration=ARCHIVE_MINUTES,
                    invitable=False,
                )
            except discord.HTTPException as error:
                is_closed = isinstance(error, discord.Forbidden) or error.code == TOO_MANY_THREADS
                if not is_closed:
                    raise
                return await self.letters(post)
            await thread.add_user(person)
        return str(thread.id)

    async def letters(self, post: Post) -> str:
        """Where its person gets letters."""
        await self._client.wait_until_ready()
        with reaching():
            user = await self._client.fetch_user(int(post.person))
            return str((await user.create_dm()).id)

    async def say(self, room: str, text: str, nonce: str, number: int) -> str:
        """A new message by which a submission can be cancelled, once for a nonce. Its id."""
        await self._client.wait_until_ready()
        view = discord.ui.View(timeout=None)
        view.add_item(CancelButton(number))
        with reaching():
            return str((await self._place(room).send(text, nonce=nonce, view=view)).id)

    async def edit(self, room: str, message: str, text: str, *, is_over: bool = False) -> None:
        """Another text for a message; once it is over, there is nothing to cancel."""
        await self._client.wait_until_ready()
        held = self._place(room).get_partial_message(int(message))
        with reaching():
            if is_over:
                await held.edit(content=text, view=None)
            else:
                await held.edit(content=text)

    async def show(self, room: str, card: Card, nonce: str) -> str:
        """A new message with a card, or the one that is there with its title. Its id."""
        await self._client.wait_until_ready()
        place = self._place(room)
        with reaching():
            async for one in place.history(limit=LOOKED_THROUGH):
                if any(found.title == card.title for found in one.embeds):
                    return str(one.id)
            sent = await place.send(embed=embed(card), files=files(card), nonce=nonce)
            return str(sent.id)

    async def close(self, room: str) -> None:
        """Close a thread; who writes in it opens it again. Letters stay as they are."""
        await self._client.wait_until_ready()
        thread = self._client.get_channel(int(room))
        if isinstance(thread, discord.Thread) and not thread.archived:
            with reaching():
                await thread.edit(archived=True)

    def _place(self, room: str) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(int(room))

    async def _channel(self, identity: str) -> object:
        found = self._client.get_channel(int(identity))
        return found or await self._client.fetch_channel(int(identity))
