"""Sends a command's file to ingest so that neither a kill nor a lost answer loses it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from discord_edge.service.following import persist
from discord_edge.service.ports import Api, Post, Posts, Sent
from discord_edge.service.tasks import Tasks
from shared.errors import Refused

# As long as somebody may look at a command that is being done.
SEND_S_MAX = 30.0

Sends = asyncio.Task[list[Post]]
_log = logging.getLogger(__name__)


@dataclass
class Sending:
    """Keeps what is sent until its answer is kept, and asks for that until there is one.

    Nobody waits for an answer that comes late: `taken` follows what came of it, `refused` tells.
    """

    api: Api
    posts: Posts
    taken: Callable[[list[Post]], Awaitable[None]]
    refused: Callable[[Sent, Refused], Awaitable[None]]
    send_s_max: float = SEND_S_MAX
    tasks: Tasks = field(default_factory=Tasks)

    async def send(self, sent: Sent) -> list[Post] | None:
        """The submissions that ingest took in, under one key however often it is asked.

        None is: not yet, and whoever sent it is told. Errors: Refused; Failed.
        """
        await self.posts.want(sent)
        sending = asyncio.create_task(self._taken(sent), name=f"send {sent.key}")
        await asyncio.wait({sending}, timeout=self.send_s_max)
        if sending.done():
            try:
                return sending.result()
            except Refused:
                await persist(lambda: self.posts.unwant(sent.key))
                raise
        # Ingest may have it by now: to give it up would be to have it sent twice.
        self._leave(sent, sending)
        return None

    async def resume(self) -> None:
        """Send again what a killed process had sent. Errors: Failed."""
        for sent in await self.posts.wanted():
            sending = asyncio.create_task(self._taken(sent), name=f"send {sent.key}")
            self._leave(sent, sending)

    async def stop(self) -> None:
        """Leave off; the next process goes on."""
        await self.tasks.stop()

    async def _taken(self, sent: Sent) -> list[Post]:
        answer = await persist(lambda: self.api.submit(sent.user, sent.wish, sent.key))
        found = _posts(sent, answer["submissions"])
        await persist(lambda: self._keep(sent, found))
        return found

    async def _keep(self, sent: Sent, found: Sequence[Post]) -> None:
        for post in found:
            await self.posts.add(post)
        await self.posts.unwant(sent.key)

    def _leave(self, sent: Sent, sending: Sends) -> None:
        """Let an answer come while nobody waits for it."""
        self.tasks.begin(self._late(sent, sending), f"late {sent.key}")

    async def _late(self, sent: Sent, sending: Sends) -> None:
        try:
            posts = await sending
        except Refused as refused:
            _log.warning("command %s comes to nothing: %s", sent.key, refused)
            await self.refused(sent, refused)
            # Not before it is told: Discord may be away for longer than this process lives.
            await persist(lambda: self.posts.unwant(sent.key))
        else:
            await self.taken(posts)


def _posts(sent: Sent, receipts: Sequence[dict[str, object]]) -> list[Post]:
    return [
        Post(
            number=int(str(one["number"])),
            person=str(sent.user.id),
            channel=sent.channel,
            problem=sent.wish.problem,
            gpu=str(one["gpu"]),
            mode=sent.wish.mode,
            first=int(str(receipts[0]["number"])),
            case=sent.wish.case,
        )
        for one in receipts
    ]
