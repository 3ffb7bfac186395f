"""The public leaderboards in memory, so that completions never wait, and past ranks."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from discord_edge.platform_api import PlatformApi
from shared.api.leaderboards import Leaderboard
from shared.api.problems import FullProblem, Problem, Problems
from shared.errors import Failed, Refused

EVERY_S = 2.0
PAGES_MAX = 20
AGO_S = 7 * 24 * 3600.0
ENTRIES_MAX = 100
# A past leaderboard is folded from its events, one at a time, and changes little in ten minutes.
KEPT_S, KEPT_MAX = 600.0, 200
# Viewers wait no longer: their page has no trend, and the next page has it.
WAIT_S = 1.0
Ranks = Mapping[str, int]

_log = logging.getLogger(__name__)


@dataclass
class LeaderboardCache:
    """The public leaderboards, at most two seconds old while the platform answers."""

    api: PlatformApi
    known: dict[str, Problem] = field(default_factory=dict)

    async def run(self) -> None:
        """Refresh again and again, for ever."""
        while True:
            try:
                await self.refresh()
            except (Failed, Refused) as error:
                _log.warning("the leaderboards cannot be refreshed now: %s", error)
            await asyncio.sleep(EVERY_S)

    async def refresh(self) -> None:
        """Read all leaderboards once. Raises `Refused` and `Failed`."""
        problems: dict[str, Problem] = {}
        query: dict[str, str | int] = {"state": "all", "limit": 100}
        for _ in range(PAGES_MAX):
            page = await self.api.get(Problems, "problems", **query)
            problems |= {problem.slug: problem for problem in page.items}
            if not page.next_cursor:
                break
            query["cursor"] = page.next_cursor
        self.known = problems

    @property
    def open_slugs(self) -> list[str]:
        """The names of the leaderboards that take submissions."""
        return sorted(slug for slug, board in self.known.items() if board.state == "active")

    def gpus(self, slug: str | None) -> list[str]:
        """Return the GPU types of a leaderboard, or of all leaderboards."""
        if slug and slug in self.known:
            return list(self.known[slug].gpus)
        return sorted({gpu for board in self.known.values() for gpu in board.gpus})

    async def get(self, api: PlatformApi, slug: str) -> Problem:
        """Return a problem that the API's user may see, even a closed one. Raises as `get`."""
        if slug in self.known:
            return self.known[slug]
        return await api.get(FullProblem, "problems", slug)


@dataclass
class RankTrends:
    """Ranks of a week ago by participant, as far as the platform keeps the past."""

    wait_s: float = WAIT_S
    tasks: dict[tuple[str, str], tuple[float, "asyncio.Task[Ranks]"]] = field(default_factory=dict)

    async def past_ranks(self, api: PlatformApi, slug: str, gpu: str) -> Ranks:
        """Return the past ranks on a leaderboard that the user may see; empty if unknown."""
        task = self._read_task(api, slug, gpu)
        await asyncio.wait({task}, timeout=self.wait_s)
        return task.result() if task.done() and not task.cancelled() else {}

    def _read_task(self, api: PlatformApi, slug: str, gpu: str) -> "asyncio.Task[Ranks]":
        now = time.monotonic()
        cached = self.tasks.get((slug, gpu))
        if cached is not None and now - cached[0] < KEPT_S:
            return cached[1]
        if len(self.tasks) >= KEPT_MAX:
            self.tasks.pop(next(iter(self.tasks)))
        task = asyncio.create_task(self._read(api, slug, gpu), name=f"trend {slug} {gpu}")
        self.tasks[slug, gpu] = (now, task)
        return task

    async def _read(self, api: PlatformApi, slug: str, gpu: str) -> Ranks:
        ago = datetime.now(UTC) - timedelta(seconds=AGO_S)
        at = ago.replace(minute=0, second=0, microsecond=0)
        path = ("leaderboards", slug, gpu)
        try:
            board = await api.get(Leaderboard, *path, as_of=at.isoformat(), limit=ENTRIES_MAX)
        except Refused as refused:
            _log.info("the leaderboard %s on %s has no trend: %s", slug, gpu, refused.reason)
            return {}
        except Failed as failed:
            _log.info("the trend of %s on %s is read again later: %s", slug, gpu, failed)
            self.tasks.pop((slug, gpu), None)
            return {}
        return {entry.participant_id: entry.rank for entry in board.items}
