"""A leaderboard at a past moment, as the read API shows it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

from ranker.__main__ import SCHEMA as LIVE
from ranker.archive.keeping import keep
from ranker.archive.past import ArchivedPast
from ranker.archive.postgres import Shelf, archive
from ranker.commands.replaying import Unwatched
from ranker.http.boards import Boards, entries
from ranker.postgres import Reader
from ranker.service import Board, News
from ranker.service.top import top
from shared import events, subjects
from shared.answers import Documented
from shared.clock import now
from shared.http import install
from shared.postgres import pool
from tests.ranker.audited import Town
from tests.ranker.replayed import fold
from tests.support.lives import T0, Life

pytestmark = pytest.mark.server
CPU = Board("identity", "CPU", 1)
HOUR = timedelta(hours=1)


class Place(NamedTuple):
    """The past of a town, and what is shown of it now."""

    past: ArchivedPast
    reader: Reader
    last: int

    async def who(self, hours: float) -> list[str]:
        """The submissions on the leaderboard so many hours after it all began, best first."""
        _, rows = await self.past.board(CPU, T0 + hours * HOUR, 10)
        return [row["submission"] for row in rows]


@pytest.fixture
async def place(postgres_dsn: str, tmp_path: Path) -> AsyncIterator[Place]:
    """One submission an hour; then the second is disqualified, restored, and the first banned."""
    town = await Town(tmp_path).found()
    for number, time_us in enumerate((100.0, 50.0, 75.0)):
        await town.live(Life(f"s{number}", f"a{number}", time_us))
        town.at += HOUR
    out = events.SubmissionDisqualified(rule="r", reason="")
    for agg, fact in (
        (subjects.moderation("s1"), out),
        (subjects.moderation("s1"), events.SubmissionRestored(reason="")),
        (subjects.account("a0"), events.AccountBanned(reason="")),
    ):
        await town.say(agg, fact)
        town.at += HOUR
    last = await town.log.last()
    await fold(town.log, postgres_dsn, LIVE, last)
    async with archive(postgres_dsn) as kept:
        await keep(town.log, kept, Unwatched(), until=last)
    async with pool(postgres_dsn, 1, 2, LIVE) as connections:
        yield placed(connections, last)


def placed(connections: AsyncConnectionPool, last: int) -> Place:
    reader = Reader(connections)
    return Place(ArchivedPast(Shelf(connections), reader), reader, last)


async def test_every_hour_had_its_own_leaderboard(place: Place) -> None:
    assert [await place.who(hours) for hours in range(-1, 7)] == [
        [],
        ["s0"],
        ["s1", "s0"],
        ["s1", "s2", "s0"],
        ["s2", "s0"],
        ["s1", "s2", "s0"],
        ["s1", "s2"],
        ["s1", "s2"],
    ]


async def test_the_present_is_shown_as_the_live_leaderboard_shows_it(place: Place) -> None:
    seq, rows = await place.past.board(CPU, now(), 10)
    assert seq == place.last
    assert rows == await entries(place.reader, CPU, await top(place.reader, CPU, 10, now()))


async def test_many_may_ask_at_once(place: Place) -> None:
    found = await asyncio.gather(*(place.who(2) for _ in range(10)))
    assert found == [["s1", "s2", "s0"]] * 10


async def asked(place: Place, moment: str, *, has_past: bool = True) -> httpx.Response:
    app = FastAPI()
    app.router.route_class = Documented
    install(app)
    Boards(place.reader, News(), app).install()
    if has_past:
        app.state.past = place.past
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://ranker"
    ) as http:
        return await http.get("/v1/leaderboards/identity/CPU", params={"as_of": moment})


async def test_the_read_api_shows_the_past(place: Place) -> None:
    moment = (T0 + 2 * HOUR).isoformat()
    answer = (await asked(place, moment)).json()
    assert [one["submission"] for one in answer["items"]] == ["s1", "s2", "s0"]
    assert answer["as_of_at"] == moment.replace("+00:00", "Z")
    assert 0 < answer["as_of"] < place.last


async def test_a_moment_without_a_zone_or_a_past_is_refused(place: Place) -> None:
    assert (await asked(place, "2026-01-01T00:00:00")).status_code == 422
    assert (await asked(place, T0.isoformat(), has_past=False)).json()["code"] == "not_supported"
