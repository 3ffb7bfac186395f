"""The live history of a submission over real connections: cut, resumed, slow, and ended."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from random import Random

import httpx
import pytest

from shared import events, subjects
from tests.ranker.streaming import StreamListener, listen
from tests.support.lives import AGENT, Life, say
from tests.support.reading import STAFF, Reads, as_, reading
from tests.support.serving import serve_app
from tests.support.waits import eventually

pytestmark = pytest.mark.server
CUTS = 100


class Line:
    """The read API behind a real server."""

    def __init__(self, reads: Reads, url: str, stopping: asyncio.Event) -> None:
        self.reads = reads
        self.url = url
        self.stopping = stopping
        self.said: dict[str, int] = {}
        self.http = httpx.AsyncClient(headers=STAFF, timeout=30)

    def events(self, number: int) -> str:
        """The URL of a submission's history."""
        return f"{self.url}/v1/submissions/{number}/events"

    async def received(self, life: Life) -> int:
        """The number of a new submission."""
        for aggregate, fact in life.facts()[:1]:
            await say(self.reads.log, aggregate, fact, life.id)

        async def number() -> int | None:
            items = (await self.reads.get("submissions"))["items"]
            return next((item["number"] for item in items if item["id"] == life.id), None)

        number_ = await eventually(number)
        assert number_ is not None
        return number_

    async def go_on(self, life: Life, count: int | None = None) -> None:
        """Append so much of the rest of its life."""
        facts = life.facts()
        start = 1 + self.said.get(life.id, 0)
        end = len(facts) if count is None else start + count
        self.said[life.id] = end - 1
        for aggregate, fact in facts[start:end]:
            await say(self.reads.log, aggregate, fact, life.id)


@pytest.fixture
async def line(postgres_dsn: str) -> AsyncIterator[Line]:
    async with reading(postgres_dsn) as reads, serve_app(reads.app) as (url, stopping):
        line_ = Line(reads, url, stopping)
        try:
            yield line_
        finally:
            await line_.http.aclose()


@pytest.mark.feature("P12")
async def test_a_stream_tells_what_was_then_what_happens_and_ends(line: Line) -> None:
    life = Life("s1")
    number = await line.received(life)
    listening = asyncio.create_task(listen(line.http, line.events(number), StreamListener()))
    await line.go_on(life)
    heard = await asyncio.wait_for(listening, 30)
    assert heard.retry_ms == 2000
    assert heard.is_end
    assert heard.types[0] == "SubmissionReceived"
    assert heard.types[-1] == "SubmissionRanked"
    assert heard.places == sorted(set(heard.places))


@pytest.mark.feature("N2")
async def test_a_hundred_cuts_lose_nothing_and_repeat_nothing(line: Line) -> None:
    life, chance = Life("s1"), Random(5)
    number = await line.received(life)
    aggregate = subjects.submission(life.id)
    for turn in range(120):
        cancel = events.SubmissionCancelRequested(reason=f"turn {turn}")
        await say(line.reads.log, aggregate, cancel, life.id)
    heard = StreamListener()
    talking = asyncio.create_task(line.go_on(life))
    for _ in range(CUTS):
        await listen(line.http, line.events(number), heard, chance.randrange(1, 700))
    await talking
    while not heard.is_end:
        await asyncio.wait_for(listen(line.http, line.events(number), heard), 10)
    history = await line.http.get(line.events(number), headers={"Accept": "application/json"})
    assert heard.places == [item["id"] for item in history.json()]
    assert heard.types == [item["type"] for item in history.json()]
    assert len(heard.places) > 120


async def test_after_the_end_one_is_given_the_rest_and_the_end(line: Line) -> None:
    (submission,) = await line.reads.ended(Life("s1"))
    url = line.events(submission["number"])
    history = await listen(line.http, url, StreamListener())
    middle = history.places[2]
    remainder = await listen(line.http, f"{url}?after={middle}", StreamListener())
    assert remainder.is_end
    assert remainder.places == history.places[3:]
    none = await listen(line.http, f"{url}?after={history.last}", StreamListener())
    assert (none.is_end, none.places) == (True, [])


async def test_every_reader_sees_the_same_numbers(line: Line) -> None:
    cancel = events.SubmissionCancelRequested(reason="never mind")
    url = line.events(await line.received(Life("s1")))
    await say(line.reads.log, subjects.submission("s1"), cancel)
    await line.go_on(Life("s1"))
    mine = await listen(line.http, url, StreamListener())
    async with httpx.AsyncClient(headers=as_("grace"), timeout=30) as http:
        others = await listen(http, url, StreamListener())
    assert set(others.places) < set(mine.places)
    assert others.is_end
    assert others.last == mine.last


async def test_what_is_kept_nowhere_is_told_without_a_place(line: Line) -> None:
    life = Life("s1")
    number = await line.received(life)
    message = {"stage": "hidden_check", "case": "n=7", "done": 1, "total": 2}
    evil, own = OrderedDict({life.id: message | {"case": "false"}}), OrderedDict({life.id: message})
    line.reads.live.progress |= {"evil": evil, AGENT: own}
    heard = StreamListener()
    listening = asyncio.create_task(listen(line.http, line.events(number), heard))
    await eventually(lambda: heard.notices)
    await line.go_on(life, 2)
    await eventually(lambda: len(heard.notices) >= 2)
    await line.go_on(life)
    await asyncio.wait_for(listening, 30)
    assert {name for name, _ in heard.notices} == {"progress", "queue"}
    assert {notice["case"] for name, notice in heard.notices if name == "progress"} == {"hidden"}


async def test_a_hundred_readers_are_told_at_once(line: Line) -> None:
    life = Life("s1")
    number = await line.received(life)
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(headers=STAFF, timeout=20, limits=limits) as http:
        heard = [StreamListener() for _ in range(100)]
        readers = [asyncio.create_task(listen(http, line.events(number), item)) for item in heard]
        await eventually(lambda: all(item.places for item in heard))
        await line.go_on(life)
        await asyncio.wait_for(asyncio.gather(*readers), 20)
    assert len({tuple(item.places) for item in heard}) == 1
    assert all(item.is_end for item in heard)


async def test_the_end_of_the_process_ends_streams_without_an_end(line: Line) -> None:
    number = await line.received(Life("s1"))
    heard = StreamListener()
    listening = asyncio.create_task(listen(line.http, line.events(number), heard))
    await eventually(lambda: len(heard.places) == 1)
    line.stopping.set()
    await asyncio.wait_for(listening, 30)
    assert not heard.is_end


@pytest.mark.parametrize(
    ("query", "headers"),
    [("?after=x", {}), ("?after=-1", {}), ("", {"Last-Event-ID": "nonsense"}), ("?after=1e3", {})],
)
async def test_a_place_that_is_none_is_refused(
    line: Line, query: str, headers: dict[str, str]
) -> None:
    (submission,) = await line.reads.ended(Life("s1"))
    answer = await line.http.get(line.events(submission["number"]) + query, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_request"


async def test_a_history_that_is_not_there_is_refused_at_once(line: Line) -> None:
    answer = await line.http.get(line.events(12345))
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_submission")


async def test_a_leaderboards_stream_says_when_to_read_it_again(line: Line) -> None:
    url, heard = f"{line.url}/v1/leaderboards/identity/CPU/events", StreamListener()
    listening = asyncio.create_task(listen(line.http, url, heard))
    # What happened before comes at once.
    await eventually(lambda: heard.last)
    before = heard.last
    life = Life("s1")
    await line.received(life)
    assert heard.last == before, "a submission changes no leaderboard before its end"
    await line.go_on(life)
    await eventually(lambda: heard.last > before)
    (entry,) = await line.reads.board()
    assert entry["submission"] == "s1"
    assert set(heard.types) == {"changed"}

    async def is_current() -> bool:
        after = await line.http.get(url, headers={"Accept": "application/json"})
        return bool(after.json() == {"as_of": await line.reads.log.last()})

    await eventually(is_current)
    line.stopping.set()
    await asyncio.wait_for(listening, 30)
