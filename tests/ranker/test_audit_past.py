"""A leaderboard at a past moment in the read API."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from psycopg_pool import AsyncConnectionPool

from ranker.archive.archiver import run_archiver
from ranker.archive.postgres import ArchiveReader, open_archive
from ranker.domain.rows import LeaderboardKey
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.http.leaderboards import ArchivedLeaderboards
from ranker.postgres import SCHEMA as LIVE
from ranker.postgres import Reader
from ranker.replay.runner import fill_models
from ranker.service.decisions import Metrics
from ranker.service.progress import Live, ProjectionProgress
from shared import events, subjects
from shared.clock import now
from shared.postgres import create_pool
from tests.ranker.audit_platform import AuditPlatform
from tests.support.lives import T0, Life
from tests.support.memory import MemoryBlobStore, MemoryLog

pytestmark = pytest.mark.server
CPU = LeaderboardKey("identity", "CPU", 1)
HOUR = timedelta(hours=1)


class Place(NamedTuple):
    """A platform with its past and its current leaderboard."""

    past: ArchivedLeaderboards
    archive: ArchiveReader
    reader: Reader
    last: int

    async def board_at(self, hours: float) -> list[str]:
        """The submissions on the leaderboard at an hour, best first."""
        _, rows = await self.past.board(CPU, T0 + hours * HOUR, 10)
        return [row["submission"] for row in rows]


@pytest.fixture
async def place(postgres_dsn: str, tmp_path: Path) -> AsyncIterator[Place]:
    """One submission per hour; then disqualify and restore the second, and ban the first."""
    platform = await AuditPlatform(tmp_path).found()
    for number, time_us in enumerate((100.0, 50.0, 75.0)):
        await platform.live(Life(f"s{number}", f"a{number}", time_us))
        platform.at += HOUR
    out = events.SubmissionDisqualified(rule="r", reason="")
    for aggregate, fact in (
        (subjects.moderation("s1"), out),
        (subjects.moderation("s1"), events.SubmissionRestored(reason="")),
        (subjects.account("a0"), events.AccountBanned(reason="")),
        (subjects.account("a2"), events.AccountMerged(into="a1", undo_until_at=T0)),
        (subjects.account("a2"), events.MergeUndone(into="a1")),
    ):
        await platform.say(aggregate, fact)
        platform.at += HOUR
    last = await platform.log.last()
    await fill_models(platform.log, postgres_dsn, LIVE, last)
    async with open_archive(postgres_dsn) as archive:
        await run_archiver(platform.log, archive, Metrics(), until=last)
    async with create_pool(postgres_dsn, 1, 2, LIVE) as connections:
        yield placed(connections, last)


def placed(connections: AsyncConnectionPool, last: int) -> Place:
    reader, archive = Reader(connections), ArchiveReader(connections)
    return Place(ArchivedLeaderboards(archive), archive, reader, last)


@pytest.mark.feature("N15")
async def test_every_hour_had_its_own_leaderboard(place: Place) -> None:
    assert [await place.board_at(hours) for hours in range(-1, 8)] == [
        [],
        ["s0"],
        ["s1", "s0"],
        ["s1", "s2", "s0"],
        ["s2", "s0"],
        ["s1", "s2", "s0"],
        ["s1", "s2"],
        ["s1"],
        ["s1", "s2"],
    ]


async def test_the_present_is_shown_as_the_live_leaderboard_shows_it(place: Place) -> None:
    past, live = [(await get_board(place, at)).json() for at in (now().isoformat(), None)]
    assert len(past["items"]) == 2
    assert past["items"] == live["items"]
    assert past["as_of"] == live["as_of"] == place.last


async def test_many_may_ask_at_once(place: Place) -> None:
    answers = await asyncio.gather(*(place.board_at(2) for _ in range(10)))
    assert answers == [["s1", "s2", "s0"]] * 10


async def get_board(place: Place, moment: str | None, *, has_past: bool = True) -> httpx.Response:
    archive = place.archive if has_past else None
    app = create_app(
        ReadSources(
            place.reader, ProjectionProgress(), Live(), MemoryLog().last, MemoryBlobStore(), archive
        )
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://ranker"
    ) as http:
        params = {} if moment is None else {"as_of": moment}
        return await http.get("/v1/leaderboards/identity/CPU", params=params)


async def test_the_read_api_shows_the_past(place: Place) -> None:
    moment = (T0 + 2 * HOUR).isoformat()
    answer = (await get_board(place, moment)).json()
    assert [item["submission"] for item in answer["items"]] == ["s1", "s2", "s0"]
    assert answer["as_of_at"] == moment.replace("+00:00", "Z")
    assert 0 < answer["as_of"] < place.last


async def test_a_moment_without_a_zone_or_a_past_is_refused(place: Place) -> None:
    assert (await get_board(place, "2026-01-01T00:00:00")).status_code == 422
    assert (await get_board(place, T0.isoformat(), has_past=False)).json()[
        "code"
    ] == "not_supported"
