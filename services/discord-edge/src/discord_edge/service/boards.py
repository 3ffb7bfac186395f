"""The open leaderboards and their GPU types, in memory, so that nobody waits for what is typed."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from discord_edge.domain.wishes import Board
from discord_edge.service.ports import Api, User
from shared.errors import Failed, Refused

EVERY_S = 2.0
PAGES_MAX = 20

_log = logging.getLogger(__name__)


def board_of(item: dict[str, Any]) -> Board:
    """A leaderboard as a problem's answer has it."""
    gpus = tuple(str(one) for one in item.get("gpus") or [])
    state = str(item.get("state") or "active")
    title = str(item.get("title") or "")
    languages = tuple(str(one) for one in item.get("languages") or [])
    return Board(str(item["slug"]), gpus, title, state, item.get("deadline_at"), languages)


@dataclass
class Boards:
    """What everybody may see, at most two seconds old while the platform answers."""

    api: Api
    known: dict[str, Board] = field(default_factory=dict)

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            try:
                await self.look()
            except (Failed, Refused) as trouble:
                _log.warning("what leaderboards there are is looked up later: %s", trouble)
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Look once. Errors: Refused; Failed."""
        found: dict[str, Board] = {}
        query: dict[str, str | int] = {"state": "all", "limit": 100}
        for _ in range(PAGES_MAX):
            page = await self.api.get(None, "problems", **query)
            found |= {one["slug"]: board_of(one) for one in page["items"]}
            if not page.get("next_cursor"):
                break
            query["cursor"] = page["next_cursor"]
        self.known = found

    @property
    def open(self) -> list[str]:
        """The names of those that take submissions in."""
        return sorted(slug for slug, one in self.known.items() if one.state == "active")

    def gpus(self, slug: str | None) -> list[str]:
        """The GPU types of a leaderboard, or of all."""
        if slug and slug in self.known:
            return list(self.known[slug].gpus)
        return sorted({gpu for one in self.known.values() for gpu in one.gpus})

    async def of(self, user: User, slug: str) -> Board:
        """A leaderboard that somebody may see, a closed one too. Errors: Refused; Failed."""
        if slug in self.known:
            return self.known[slug]
        return board_of(await self.api.get(user, "problems", slug))
