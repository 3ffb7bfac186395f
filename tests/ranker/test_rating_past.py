"""The rating of any instant: derived again by an audit, and shown without what is hidden."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from ranker.archive.archiver import run_archiver
from ranker.archive.postgres import ArchiveReader, open_archive
from ranker.audit.rating import LiveRating, audit_rating
from ranker.domain.rating import rate
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import SCHEMA, Reader, ReadModels
from ranker.service.decisions import Metrics
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.projection import project
from ranker.service.rating import read_boards
from shared import events, subjects
from shared.api.audits import RatingAuditRequest
from shared.contests.definition import Contest, Phase
from shared.errors import Refused
from shared.postgres import connect, create_pool
from shared.verdicts import verify_verdict
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_contest_standings import (
    HOUR,
    SLUG,
    ContestChaos,
    LogCopy,
    definition,
    publish_contest,
)
from tests.support.chance import seeds
from tests.support.lives import T0, Life
from tests.support.memory import MemoryBlobStore, MemoryLog

pytestmark = pytest.mark.server


class RatingChaos(ContestChaos):
    """A random history of a short contest, whose leaderboards are closed and opened again."""

    has_merges = True
    close_hours = (1, 4)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        ends = (2, 3, 9)
        problems = [
            replace(problem, ends_at=T0 + hours * HOUR)
            for problem, hours in zip(self.contest.problems, ends, strict=True)
        ]
        self.contest = replace(self.contest, problems=problems)

    async def step(self) -> None:
        """Append an event, sometimes about the visibility of a leaderboard."""
        if self.chance.random() < 0.05:
            slug = self.chance.choice(["identity", "other", "third"])
            visibility = self.chance.choice(["closed", "public", "public", None])
            changed = events.LeaderboardChanged(visibility=visibility, reason="r")
            await super().say(subjects.problem(slug), changed)
        await super().step()


@seeds(4)
async def test_an_audit_derives_the_rating_of_now_and_of_any_instant(
    postgres_dsn: str, seed: int
) -> None:
    chaos = RatingChaos(seed)
    await publish_contest(chaos.log, chaos.contest)
    shown: list[LiveRating] = []
    async with await connect(postgres_dsn, SCHEMA) as connection:
        models = ReadModels(connection)
        for _ in range(8):
            for _ in range(20):
                await chaos.step()
            last = await chaos.log.last()
            async for _ in project(chaos.log, models, ProjectionProgress(), Metrics(), until=last):
                pass
            # Some bans have ended by the clock alone.
            shown += [
                LiveRating(last, at, rate(await read_boards(models, at)))
                for at in (chaos.clock, chaos.clock + 12 * HOUR)
            ]
            chaos.clock += timedelta(seconds=1)
    copy = LogCopy(chaos.log)
    for live in shown:
        request = RatingAuditRequest(as_of_seq=live.seq)
        report = await audit_rating(request, copy, verify_verdict, live)
        assert (report.differences, report.findings) == ([], [])
    for live in shown[::2]:
        past = await audit_rating(RatingAuditRequest(as_of=live.at), copy, verify_verdict)
        assert (past.ratings, past.seq) == (list(live.ratings), live.seq)
    assert sum(len(live.ratings) for live in shown) >= 10

    # What somebody changed in a table is found.
    live = next(live for live in reversed(shown) if len(live.ratings) > 1)
    first, *others = live.ratings
    part, *rest = first.problems
    account, request = first.participant_id, RatingAuditRequest(as_of_seq=live.seq)
    forged = replace(first, rating=99.5, problems=[replace(part, rank=9), *rest])
    live = live._replace(ratings=[forged, *others])
    report = await audit_rating(request, copy, verify_verdict, live)
    assert not report.is_clean
    assert report.differences == [
        f"{account}: rating is shown as 99.5, the log gives {first.rating}",
        f"{account} on {part.problem}: rank is shown as 9, the log gives {part.rank}",
    ]
    report = await audit_rating(request, copy, verify_verdict, live._replace(ratings=others))
    assert report.differences == [f"{account} is missing: the log gives rank {first.rank}"]
    early = RatingAuditRequest(as_of=T0 - timedelta(days=1))
    assert (await audit_rating(early, copy, verify_verdict)).ratings == []
    with pytest.raises(Refused, match="the log is empty"):
        await audit_rating(RatingAuditRequest(), LogCopy(MemoryLog()), verify_verdict)


@dataclass
class ArchivedPlatform:
    """A platform whose log is folded and archived on demand, with its read API."""

    platform: AuditPlatform
    dsn: str
    http: httpx.AsyncClient

    async def publish(self, hours: float, contest: Contest) -> None:
        """Publish a definition of a contest at an hour."""
        self.platform.at = T0 + hours * HOUR
        published = events.ContestPublished(number=1, contest=contest)
        await self.platform.tell(subjects.contest(SLUG), published)

    async def settle(self) -> None:
        """Fold and archive the whole log."""
        log = self.platform.log
        last = await log.last()
        async with await connect(self.dsn, SCHEMA) as connection:
            models = ReadModels(connection)
            async for _ in project(log, models, ProjectionProgress(), Metrics(), until=last):
                pass
        async with open_archive(self.dsn) as archive:
            await run_archiver(log, archive, Metrics(), until=last)

    async def get(self, path: str, hours: float) -> dict[str, Any]:
        """A read as of an hour."""
        as_of = (T0 + hours * HOUR).isoformat()
        answer = await self.http.get(path, params={"as_of": as_of})
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def rated_at(self, hours: float) -> list[str]:
        """Who was rated at an hour, best first."""
        return [it["participant_id"] for it in (await self.get("/v1/rating", hours))["items"]]


@pytest.fixture
async def archived(postgres_dsn: str, tmp_path: Path) -> AsyncIterator[ArchivedPlatform]:
    """Two participants on one leaderboard, the second an hour after the first."""
    platform = await AuditPlatform(tmp_path).found()
    for account, time_us in (("ada", 50.0), ("eve", 90.0)):
        await platform.live(Life(account, account, time_us))
        platform.at += HOUR
    async with create_pool(postgres_dsn, 1, 2, SCHEMA) as connections:
        sources = ReadSources(
            Reader(connections),
            ProjectionProgress(),
            Live(),
            platform.log.last,
            MemoryBlobStore(),
            ArchiveReader(connections),
        )
        async with open_client(sources) as http:
            yield ArchivedPlatform(platform, postgres_dsn, http)


@asynccontextmanager
async def open_client(sources: ReadSources) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(sources))
    async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as http:
        yield http


async def test_the_rating_of_an_instant_shows_nothing_that_is_hidden_then_or_now(
    archived: ArchivedPlatform,
) -> None:
    first = definition().problems[0]
    starts_at, ends_at = T0 + 3 * HOUR, T0 + 4 * HOUR
    problem = replace(first, starts_at=starts_at, ends_at=ends_at)
    freeze = Phase(kind="finals", ranks="frozen", starts_at=starts_at, ends_at=ends_at)
    archive = Phase(kind="archive", starts_at=T0 + 7 * HOUR)
    contest = definition(problems=[problem], phases=[freeze, archive])
    await archived.publish(2, contest)
    await archived.settle()
    # The contest hid the ranks from the third hour on, until its archive began.
    hours = (0, 1, 2.5, 3, 4.5, 6, 8)
    assert [await archived.rated_at(hour) for hour in hours] == [
        *(["ada"], ["ada", "eve"], ["ada", "eve"]),
        *([], [], []),
        ["ada", "eve"],
    ]
    answer = await archived.http.get("/v1/rating", params={"as_of": "2026-01-01T00:00:00"})
    assert answer.status_code == 422

    # Its archive begins later after all: what is hidden now is hidden of every instant.
    await archived.publish(8, replace(contest, phases=[freeze]))
    await archived.settle()
    assert [await archived.rated_at(hour) for hour in (1, 8)] == [[], []]


async def test_the_past_has_the_scores_that_a_fixed_yardstick_restated(
    archived: ArchivedPlatform,
) -> None:
    """Without them, the first runs would be ranked in another unit than the later ones."""
    restated = events.RestatedScore(
        submission="ada",
        run="run-ada",
        score_us=100.0,
        yardstick_us=1.0,
        interval_us=(99.0, 101.0),
        process_us=[],
        error=None,
        freedom=0,
        delta=0.0,
    )
    fixed = events.YardstickFixed(
        problem="identity",
        problem_number=1,
        problem_digest="d" * 64,
        gpu="CPU",
        times_us={"size=1": 1.0},
        runs=["run-ada"],
        restated=[restated],
    )
    await archived.platform.tell(subjects.yardstick("identity", "CPU", 1), fixed)
    await archived.settle()
    path = "/v1/leaderboards/identity/CPU"
    for hours, expected in ((1.5, ["ada", "eve"]), (2.5, ["eve", "ada"])):
        items = (await archived.get(path, hours))["items"]
        assert [item["submission"] for item in items] == expected
        assert await archived.rated_at(hours) == expected
