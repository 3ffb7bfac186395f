"""Polls at one moment share their reads, readers see only their own, and nothing is stale."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ranker.http.ranking import RESULTS_MAX, ReadSnapshots
from ranker.postgres import SCHEMA
from ranker.postgres import Reader as Reading
from shared import events, subjects
from shared.errors import Failed
from shared.postgres import connect, create_pool
from tests.support.lives import Life, live, say
from tests.support.reading import STAFF, Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
POLLS = 20


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await reads.named("ada", "Ada")
    await reads.named("grace", "Grace")
    return reads


async def polled(reads: Reads, number: int, headers: dict[str, str]) -> tuple[int, Any]:
    answer = await reads.http.get(f"/v1/submissions/{number}", headers=headers)
    return answer.status_code, answer.json()


async def test_readers_of_one_number_at_once_each_see_their_own_view(reads: Reads) -> None:
    ranked, tried = await reads.ended(Life("s1"), Life("s2", mode="test"))
    readers = [as_("ada"), as_("grace"), as_(None), STAFF] * POLLS
    pages = await asyncio.gather(*(polled(reads, ranked["number"], headers) for headers in readers))
    for headers, (status, page) in zip(readers, pages, strict=True):
        is_whole = headers in (as_("ada"), STAFF)
        assert (status, page["ranking"]["rank"], page["participant"]) == (200, 1, "Ada")
        assert bool(page["cases"] and page["name"] and "results" in page) is is_whole
    responses = await asyncio.gather(
        *(polled(reads, tried["number"], headers) for headers in readers)
    )
    assert [status for status, _ in responses] == [200, 404, 404, 200] * POLLS


async def test_a_change_of_the_board_shows_at_once(reads: Reads) -> None:
    (responses,) = await reads.ended(Life("s1", time_us=100.0))
    number = responses["number"]
    assert (await polled(reads, number, as_("ada")))[1]["ranking"]["rank"] == 1
    await live(reads.log, Life("s2", account="grace", time_us=50.0))

    async def is_ranked() -> bool:
        return len(await reads.board()) == 2

    await eventually(is_ranked)
    ranking = (await polled(reads, number, as_("ada")))[1]["ranking"]
    assert (ranking["rank"], ranking["delta_to_next"]) == (2, pytest.approx(50e-6))
    closed = events.LeaderboardChanged(visibility="closed", reason="a contest")
    await say(reads.log, subjects.problem("identity"), closed)
    await reads.settle()
    assert (await polled(reads, number, as_("ada")))[0] == 404
    assert (await polled(reads, number, as_("ada", "identity")))[0] == 200


async def test_a_decision_against_a_submission_shows_at_once(reads: Reads) -> None:
    (responses,) = await reads.ended(Life("s1"))
    await say(reads.log, subjects.moderation("s1"), events.SubmissionHeld(rule="r", reason="look"))
    await reads.settle()
    page = (await polled(reads, responses["number"], as_("ada")))[1]
    assert (page["ranking"]["code"], page["moderation"]["is_held"]) == ("manual_hold", True)


async def test_what_no_event_tells_of_shows_at_once(reads: Reads) -> None:
    (responses,) = await reads.ended(Life("s1"))
    for note in ("one", "two", "three"):
        async with await connect(reads.dsn, "accounts") as connection:
            await connection.execute(
                b"insert into submission_note (submission, account, note) values"
                b" ('s1', 'ada', %(note)s) on conflict (submission) do update"
                b" set note = excluded.note",
                {"note": note},
            )
        assert (await polled(reads, responses["number"], as_("ada")))[1]["note"] == note


async def test_a_page_that_was_seen_is_not_sent_again_until_it_changes(reads: Reads) -> None:
    (responses,) = await reads.ended(Life("s1"))
    path = f"/v1/submissions/{responses['number']}"
    tag = (await reads.http.get(path)).headers["etag"]
    assert (await reads.http.get(path, headers={"If-None-Match": tag})).status_code == 304
    assert (await reads.http.get(path, headers=as_("grace"))).headers["etag"] != tag
    await reads.ended(Life("s2", account="grace", time_us=50.0))
    again = await reads.http.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.json()["ranking"]["rank"]) == (200, 2)


class Counted:
    """Read models that count their queries."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.asked: Counter[str] = Counter()

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of a statement."""
        self.asked[statement] += 1
        return await self.reading.rows(statement, **values)


@asynccontextmanager
async def counted(dsn: str) -> AsyncIterator[Counted]:
    async with create_pool(dsn, 1, 4, SCHEMA) as connections:
        yield Counted(Reading(connections))


async def test_who_asks_at_one_moment_shares_the_read(postgres_dsn: str) -> None:
    async with counted(postgres_dsn) as reads:
        moments = ReadSnapshots(reads)

        async def ask() -> list[dict[str, Any]]:
            return await (await moments.now()).rows("submission_id", number=1)

        assert await asyncio.gather(*(ask() for _ in range(POLLS))) == [[]] * POLLS
        assert reads.asked == {"snapshot": 1, "submission_id": 1}


async def test_a_look_that_began_before_one_asked_does_not_count(postgres_dsn: str) -> None:
    async with counted(postgres_dsn) as reads:
        moments = ReadSnapshots(reads)
        early = asyncio.create_task(moments.now())
        await eventually(lambda: reads.asked["snapshot"] == 1)
        async with await connect(postgres_dsn, SCHEMA) as connection:
            await connection.execute(b"update checkpoint set seq = 7")
        rows = await (await moments.now()).rows("checkpoint")
        assert rows == [{"seq": 7}]
        await early
        assert reads.asked["snapshot"] == 2


async def test_a_failure_is_not_kept_and_neither_is_too_much(postgres_dsn: str) -> None:
    async with counted(postgres_dsn) as reads:
        moment = await ReadSnapshots(reads).now()

        async def fail() -> None:
            raise Failed("away")

        async def well() -> None:
            return

        with pytest.raises(Failed):
            await moment.find_once("it", fail)
        await moment.find_once("it", well)
        for number in range(RESULTS_MAX + 1):
            await moment.rows("submission_id", number=number)
        await moment.rows("submission_id", number=0)
        assert reads.asked["submission_id"] == RESULTS_MAX + 2


async def test_who_goes_away_takes_nothing_from_the_others(postgres_dsn: str) -> None:
    async with counted(postgres_dsn) as reads:
        moment, go = await ReadSnapshots(reads).now(), asyncio.Event()

        async def find() -> int:
            await go.wait()
            return 7

        first = asyncio.create_task(moment.find_once("it", find))
        second = asyncio.create_task(moment.find_once("it", find))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first}, timeout=30)
        go.set()
        assert await second == 7
