"""Which ranks there were a week ago, looked up once for all who look at a leaderboard."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from discord_edge.service.ports import Api, User
from shared.errors import Failed, Refused

AGO_S = 7 * 24 * 3600.0
ENTRIES_MAX = 100
# A past leaderboard is folded from its events, one at a time, and changes little in ten minutes.
KEPT_S, KEPT_MAX = 600.0, 200
# Who looks waits no longer: the page is shown without it, and the next has it.
WAIT_S = 1.0

Ranks = Mapping[str, int]
_log = logging.getLogger(__name__)


@dataclass
class Trends:
    """Ranks of a week ago by participant, as far as the platform keeps its past."""

    api: Api
    wait_s: float = WAIT_S
    kept: dict[tuple[str, str], tuple[float, "asyncio.Task[Ranks]"]] = field(default_factory=dict)

    async def before(self, user: User, slug: str, gpu: str) -> Ranks:
        """Who had which rank, on a leaderboard that the user may see; empty if nobody knows."""
        task = self._task(user, slug, gpu)
        await asyncio.wait({task}, timeout=self.wait_s)
        return task.result() if task.done() and not task.cancelled() else {}

    def _task(self, user: User, slug: str, gpu: str) -> "asyncio.Task[Ranks]":
        now = time.monotonic()
        held = self.kept.get((slug, gpu))
        if held is not None and now - held[0] < KEPT_S:
            return held[1]
        if len(self.kept) >= KEPT_MAX:
            self.kept.pop(next(iter(self.kept)))
        task = asyncio.create_task(self._look(user, slug, gpu), name=f"trend {slug} {gpu}")
        self.kept[slug, gpu] = (now, task)
        return task

    async def _look(self, user: User, slug: str, gpu: str) -> Ranks:
        ago = datetime.now(UTC) - timedelta(seconds=AGO_S)
        at = ago.replace(minute=0, second=0, microsecond=0)
        path = ("leaderboards", slug, gpu)
        try:
            answer = await self.api.get(user, *path, as_of=at.isoformat(), limit=ENTRIES_MAX)
        except Refused as refused:
            _log.info("the leaderboard %s on %s has no trend: %s", slug, gpu, refused.reason)
            return {}
        except Failed as failed:
            _log.info("the trend of %s on %s is looked up again: %s", slug, gpu, failed)
            self.kept.pop((slug, gpu), None)
            return {}
        return {str(one["participant_id"]): int(one["rank"]) for one in answer["items"]}
