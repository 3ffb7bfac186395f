"""What the edge fetches for cards and tables, of a platform that answers by a script."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from discord_edge.domain.report import Attached, Card
from discord_edge.ingest_http import HttpApi
from discord_edge.service.ports import User
from discord_edge.service.reporting import FETCH_BYTES_MAX, reported
from discord_edge.service.trends import Trends
from shared.errors import Refused

ADA = User(7)
OVER: dict[str, Any] = {
    "number": 7,
    "problem": "sort",
    "problem_number": 1,
    "gpu": "CPU",
    "mode": "test",
    "name": "k.py",
    "state": "finished",
    "version": 9,
    "is_over": True,
    "outcome": "passed",
    "verdict": "passed",
    "source": "secret = 1",
}
Answers = Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]


@asynccontextmanager
async def answering(answers: Answers, public_url: str = "") -> AsyncIterator[HttpApi]:
    transport = httpx.MockTransport(answers)
    async with httpx.AsyncClient(transport=transport, base_url="http://platform") as client:
        yield HttpApi(client, public_url)


def by_name(card: Card) -> dict[str, Attached]:
    return {one.name: one for one in card.files}


async def test_files_come_along_and_what_is_large_or_gone_by_its_address() -> None:
    async def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("gone.txt"):
            return httpx.Response(404, json={"code": "not_found", "detail": "not kept"})
        return httpx.Response(200, content=b"it printed this")

    files = [
        {"name": "log.txt", "bytes": 15},
        {"name": "gone.txt", "bytes": 9},
        {"name": "a b.ncu-rep", "bytes": FETCH_BYTES_MAX + 1},
        {"name": "samples.json.gz", "bytes": 9},
    ]
    async with answering(answers, "https://w.example") as api:
        card = await reported(api, ADA, OVER | {"files": files})
    found = by_name(card)
    assert found["log.txt"].data == b"it printed this"
    assert (found["gone.txt"].data, found["a b.ncu-rep"].data) == (None, None)
    assert found["a b.ncu-rep"].link == "https://w.example/v1/submissions/7/files/a%20b.ncu-rep"
    assert "samples.json.gz" not in found
    assert b"secret" not in (found["result.json"].data or b"")


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_what_is_typed_as_a_name_leads_nowhere_else(name: str) -> None:
    async def answers(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    async with answering(answers) as api:
        with pytest.raises(Refused, match="is no name"):
            await api.do(ADA, "POST", "admin", "participants", name, "ban", key="1")


async def test_a_week_ago_is_looked_up_once_for_all() -> None:
    asked: list[httpx.URL] = []

    async def answers(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, json={"items": [{"participant_id": "ada", "rank": 3}]})

    async with answering(answers) as api:
        trends = Trends(api)
        for found in await asyncio.gather(*(trends.before(ADA, "sort", "CPU") for _ in range(9))):
            assert found == {"ada": 3}
    [url] = asked
    assert url.params["as_of"].endswith(":00:00+00:00")


async def test_who_looks_does_not_wait_for_a_past_that_is_slow_or_unknown() -> None:
    slow = asyncio.Event()

    async def answers(request: httpx.Request) -> httpx.Response:
        if "slow" in request.url.path:
            await slow.wait()
        return httpx.Response(400, json={"code": "not_supported", "detail": "no past"})

    async with answering(answers) as api:
        trends = Trends(api, wait_s=0.01)
        assert await trends.before(ADA, "sort", "CPU") == {}
        assert await trends.before(ADA, "slow", "CPU") == {}
        slow.set()
        await asyncio.gather(*(task for _, task in trends.kept.values()))


async def test_a_past_that_could_not_be_looked_up_is_asked_for_again() -> None:
    codes = iter((503, 200))

    async def answers(_: httpx.Request) -> httpx.Response:
        return httpx.Response(next(codes), json={"items": [{"participant_id": "ada", "rank": 1}]})

    async with answering(answers) as api:
        trends = Trends(api)
        assert await trends.before(ADA, "sort", "CPU") == {}
        assert await trends.before(ADA, "sort", "CPU") == {"ada": 1}
