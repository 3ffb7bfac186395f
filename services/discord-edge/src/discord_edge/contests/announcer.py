"""Announces contests: new ones, phases, moved times, finalists and results, once each."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from discord_edge.contests import texts
from discord_edge.contests.postgres import PostgresContests
from discord_edge.platform_api import PlatformApi
from shared import events
from shared.api.contest_standings import ContestResults
from shared.api.contests import ContestDetails, Contests
from shared.clock import now
from shared.contests.definition import ARCHIVE, Contest
from shared.event_log import RecordedEvent

FACTS = (
    events.ContestPublished,
    events.ContestFinalistsAdmitted,
    events.ContestResultsProposed,
    events.ContestResultsConfirmed,
)
# Events say what changes; reading again finds contests from before this process.
REFRESH_EVERY_S = 60.0

_log = logging.getLogger(__name__)


class ContestAnnouncer:
    """Announces contests with `send`, which sends a text under a name once.

    No event begins a phase: the definition and the clock do. Which phases were announced is in
    a table, so that a restart repeats none and loses none. The platform is read as the anonymous
    public, so nothing that is hidden can be announced. Methods raise `Failed` and `Refused`.
    """

    def __init__(
        self,
        api: PlatformApi,
        tables: PostgresContests,
        send: Callable[[str, str], Awaitable[None]],
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._api, self._tables, self._send, self._clock = api, tables, send, clock
        self._contests: dict[str, Contest] = {}
        self._announced: dict[str, frozenset[str]] = {}
        self._read_at = -REFRESH_EVERY_S
        # The clock and an event may lead to the same change at once.
        self._lock = asyncio.Lock()

    async def announce(self, slug: str, recorded: RecordedEvent) -> None:
        """Announce one event of a contest, of the types in `FACTS`."""
        async with self._lock:
            contest = await self._read(slug)
            if contest is None:
                return
            name, link, fact = f"contest:{slug}:{recorded.seq}", self._link(slug), recorded.fact
            match fact:
                case events.ContestPublished(number=1):
                    at = self._clock()
                    await self._send(name, texts.published_text(contest, at, link))
                    # The message has these phases already.
                    await self._begin(contest, at)
                case events.ContestPublished(moved=[_, *_]):
                    text = texts.moved_text(fact.contest, fact.moved, fact.reason, link)
                    await self._send(name, text)
                case events.ContestFinalistsAdmitted():
                    await self._announce_finalists(name, contest, recorded.seq, fact)
                case events.ContestResultsProposed():
                    text = texts.provisional_text(contest, fact.appeals_until_at, link)
                    await self._send(name, text)
                case events.ContestResultsConfirmed():
                    await self._announce_results(name, contest, recorded.seq)

    async def announce_phases(self) -> None:
        """Announce the phases that began since the last call, also of an earlier process."""
        async with self._lock:
            if time.monotonic() - self._read_at >= REFRESH_EVERY_S:
                await self._read_all()
            for contest in list(self._contests.values()):
                await self._announce_phases(contest, self._clock())

    async def _announce_phases(self, contest: Contest, at: datetime) -> None:
        slug = contest.slug
        if slug not in self._announced and not await self._load(contest, at):
            return
        if _started(contest, at) == self._announced[slug]:
            return
        # An update that moved the phase may not have arrived here yet.
        newest = await self._read(slug)
        if newest is None:
            return
        for start in texts.started_phases(newest, at):
            if start.name not in self._announced[slug]:
                name = f"contest:{slug}:{start.name}:{start.phase.starts_at.isoformat()}"
                await self._send(name, texts.phase_text(newest, start.phase, at, self._link(slug)))
        await self._save(slug, _started(newest, at))

    async def _load(self, contest: Contest, at: datetime) -> bool:
        """Load which phases were announced; False for a contest from before announcements."""
        known = await self._tables.announced_phases(contest.slug)
        if known is None:
            await self._save(contest.slug, _started(contest, at))
            return False
        self._announced[contest.slug] = frozenset(known)
        return True

    async def _begin(self, contest: Contest, at: datetime) -> None:
        """Consider the phases until an instant announced, unless this is known."""
        if await self._tables.announced_phases(contest.slug) is None:
            await self._save(contest.slug, _started(contest, at))

    async def _save(self, slug: str, phases: frozenset[str]) -> None:
        await self._tables.save_announced_phases(slug, sorted(phases))
        self._announced[slug] = phases

    async def _announce_finalists(
        self, name: str, contest: Contest, sequence: int, fact: events.ContestFinalistsAdmitted
    ) -> None:
        path = ("contests", contest.slug)
        results = await self._api.read_as_of(sequence, ContestResults, *path, "results")
        # Without names where the current phase hides ranks.
        names = [it.name for it in results.finalists] if results is not None else []
        count, link = len(fact.contestants), self._link(contest.slug)
        await self._send(name, texts.finalists_text(contest, count, names, link))

    async def _announce_results(self, name: str, contest: Contest, sequence: int) -> None:
        path = ("contests", contest.slug)
        results = await self._api.read_as_of(sequence, ContestResults, *path, "results")
        # Without places where the current phase hides them.
        places = results.places if results is not None and results.state == "final" else []
        await self._send(name, texts.final_text(contest, places, self._link(contest.slug)))

    async def _read_all(self) -> None:
        contests = await self._api.read(Contests, "contests")
        for item in contests.items if contests else []:
            is_over = item.phase == ARCHIVE or item.phase is item.next_phase is None
            # One that is over changes no more; it is read once, since its end may be news here.
            if not is_over or item.slug not in self._contests:
                await self._read(item.slug)
        self._read_at = time.monotonic()

    async def _read(self, slug: str) -> Contest | None:
        details = await self._api.read(ContestDetails, "contests", slug)
        if details is None:
            _log.warning("the contest %s cannot be read, so it is not announced", slug)
            return None
        self._contests[slug] = details.contest
        return details.contest

    def _link(self, slug: str) -> str:
        return self._api.link(f"/contests/{slug}")


def _started(contest: Contest, at: datetime) -> frozenset[str]:
    return frozenset(start.name for start in texts.started_phases(contest, at))
