"""Finds the forum's posts that belong to problems, and keeps which is whose."""

from dataclasses import dataclass
from typing import Protocol

from discord_edge.domain.news import Facts
from discord_edge.domain.pairing import Pair, pairs
from discord_edge.service.boards import Boards
from discord_edge.service.ports import Api
from discord_edge.service.public import Ledger, Told
from shared.telling.answers import read


class Forum(Protocol):
    """The posts that the bot made for everybody."""

    async def posts(self) -> dict[str, str]:
        """The names of the bot's own posts, by their ids. Errors: Refused; Failed."""
        ...


@dataclass(frozen=True)
class Pairing:
    """Pairs posts with what everybody may see; what is closed has no post."""

    api: Api
    boards: Boards
    forum: Forum
    ledger: Ledger

    async def look(self) -> list[Pair]:
        """What is so now. Errors: Refused; Failed."""
        # What is known for who types may be two seconds old.
        await self.boards.look()
        posts, kept = await self.forum.posts(), {}
        problems = sorted(self.boards.known)
        for slug in problems:
            told = await self.ledger.board(slug)
            if told is not None:
                kept[slug] = told.thread
        return pairs(problems, kept, posts)

    async def keep(self, found: list[Pair]) -> None:
        """Keep the posts that were found. Errors: Refused; Failed."""
        for pair in found:
            if pair.what == "paired" and pair.post is not None:
                facts = read(await self.api.get(None, "problems", pair.problem), Facts)
                await self.ledger.set_board(pair.problem, Told(pair.post, facts))
