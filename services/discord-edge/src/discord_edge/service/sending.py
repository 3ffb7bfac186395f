"""Sends a command's file to ingest so that neither a kill nor a lost answer loses it."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from discord_edge.service.following import persist
from discord_edge.service.ports import Api, Post, Posts, Sent
from shared.errors import Failed, Refused

# As long as somebody may look at a command that is being done.
SEND_S_MAX = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sending:
    """Keeps what is sent until its answer is kept."""

    api: Api
    posts: Posts

    async def send(self, sent: Sent) -> list[Post]:
        """The submissions that ingest took in, under one key however often it is asked.

        Errors: Refused; Failed.
        """
        await self.posts.want(sent)
        try:
            async with asyncio.timeout(SEND_S_MAX):
                return await persist(lambda: self._taken(sent))
        except TimeoutError as error:
            await self.posts.unwant(sent.key)
            raise Failed(f"no answer in {SEND_S_MAX:g} s") from error

    async def _taken(self, sent: Sent) -> list[Post]:
        try:
            answer = await self.api.submit(sent.user, sent.wish, sent.key)
        except Refused:
            await self.posts.unwant(sent.key)
            raise
        found = _posts(sent, answer["submissions"])
        for post in found:
            await self.posts.add(post)
        await self.posts.unwant(sent.key)
        return found

    async def resume(self) -> None:
        """Send again what a killed process had sent. Errors: Failed."""
        for sent in await self.posts.wanted():
            try:
                await self._taken(sent)
            except Refused as refused:
                _log.warning("command %s comes to nothing: %s", sent.key, refused)
            except Failed as failed:
                _log.warning("command %s is left to the next start: %s", sent.key, failed)
                return


def _posts(sent: Sent, receipts: Sequence[dict[str, object]]) -> list[Post]:
    return [
        Post(
            number=int(str(one["number"])),
            person=str(sent.user.id),
            channel=sent.channel,
            problem=sent.wish.problem,
            gpu=str(one["gpu"]),
            mode=sent.wish.mode,
        )
        for one in receipts
    ]
