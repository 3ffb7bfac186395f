"""What the edge fetches for cards and tables, of a platform that answers by a script."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from discord_edge.platform_api import DiscordUser, PlatformApi, RankTrends
from discord_edge.submissions.report import FETCH_BYTES_MAX, fetch_report
from discord_edge.wording import Attachment, Card
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.submissions import File, FullSubmission
from shared.errors import Refused
from tests.support.api_examples import make_example

ADA = DiscordUser(7)
OVER: dict[str, Any] = {
    "number": 7,
    "problem": "sort",
    "problem_version": 1,
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
async def answering(answers: Answers, public_url: str = "") -> AsyncIterator[PlatformApi]:
    transport = httpx.MockTransport(answers)
    async with httpx.AsyncClient(transport=transport, base_url="http://platform") as client:
        yield PlatformApi(client, public_url, ADA)


def board_of(participant: str, rank: int) -> bytes:
    """A leaderboard with one entry, as the platform sends it."""
    entry = make_example(Entry, participant_id=participant, rank=rank)
    return msgspec.json.encode(make_example(Leaderboard, items=[entry]))


def by_name(card: Card) -> dict[str, Attachment]:
    return {one.name: one for one in card.files}


async def test_a_report_has_its_files_and_links_to_large_or_deleted_ones() -> None:
    async def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("gone.txt"):
            return httpx.Response(404, json={"code": "not_found", "detail": "not kept"})
        return httpx.Response(200, content=b"it printed this")

    files: list[dict[str, Any]] = [
        {"name": "log.txt", "bytes": 15},
        {"name": "gone.txt", "bytes": 9},
        {"name": "a b.ncu-rep", "bytes": FETCH_BYTES_MAX + 1},
        {"name": "samples.json.gz", "bytes": 9},
    ]
    async with answering(answers, "https://w.example") as api:
        submission = make_example(
            FullSubmission, **OVER, files=[make_example(File, **one) for one in files]
        )
        card = await fetch_report(api, submission)
    found = by_name(card)
    assert found["log.txt"].data == b"it printed this"
    assert (found["gone.txt"].data, found["a b.ncu-rep"].data) == (None, None)
    assert found["a b.ncu-rep"].link == "https://w.example/v1/submissions/7/files/a%20b.ncu-rep"
    assert "samples.json.gz" not in found
    assert b"secret" not in (found["result.json"].data or b"")


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_typed_name_cannot_change_the_path(name: str) -> None:
    async def answers(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    async with answering(answers) as api:
        with pytest.raises(Refused, match="is not a name"):
            await api.request(object, "POST", "admin", "participants", name, "ban")


async def test_past_ranks_are_read_once_for_all_viewers() -> None:
    asked: list[httpx.URL] = []

    async def answers(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, content=board_of("ada", 3))

    async with answering(answers) as api:
        trends = RankTrends()
        for found in await asyncio.gather(
            *(trends.past_ranks(api, "sort", "CPU") for _ in range(9))
        ):
            assert found == {"ada": 3}
    [url] = asked
    assert url.params["as_of"].endswith(":00:00+00:00")


async def test_viewers_do_not_wait_for_slow_or_unknown_past_ranks() -> None:
    slow = asyncio.Event()

    async def answers(request: httpx.Request) -> httpx.Response:
        if "slow" in request.url.path:
            await slow.wait()
        return httpx.Response(400, json={"code": "not_supported", "detail": "no past"})

    async with answering(answers) as api:
        trends = RankTrends(wait_s=0.01)
        assert await trends.past_ranks(api, "sort", "CPU") == {}
        assert await trends.past_ranks(api, "slow", "CPU") == {}
        slow.set()
        await asyncio.gather(*(task for _, task in trends.tasks.values()))


async def test_failed_reads_of_past_ranks_are_repeated() -> None:
    codes = iter((503, 200))

    async def answers(_: httpx.Request) -> httpx.Response:
        return httpx.Response(next(codes), content=board_of("ada", 1))

    async with answering(answers) as api:
        trends = RankTrends()
        assert await trends.past_ranks(api, "sort", "CPU") == {}
        assert await trends.past_ranks(api, "sort", "CPU") == {"ada": 1}
