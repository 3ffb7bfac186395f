"""The page of a leaderboard is kept for visitors without a login, and is never older than asked."""

import asyncio

import httpx
import pytest

from ingest.ranker_http import RankerClient
from ingest.site.page_cache import RENDERED_S_MAX, PageAddress, PageCache
from shared import events, subjects
from shared.api.leaderboards import Leaderboard
from tests.ingest.test_site_pages import BOARD, run
from tests.ingest.ways import Ways
from tests.support.lives import Life, say

pytestmark = pytest.mark.server
OPENED_AT_ONCE = 30


def count_reads(ways: Ways) -> list[str]:
    """Return a list that grows with each question to ranker."""
    paths: list[str] = []

    async def note(request: httpx.Request) -> None:
        paths.append(request.url.path)

    ways.reads.http.event_hooks["request"].append(note)
    return paths


async def test_a_page_that_many_open_at_once_asks_ranker_twice(ways: Ways) -> None:
    await run(ways, Life("s1", "p1"))
    paths = count_reads(ways)
    async with ways.browser("nobody", {}) as browser:
        pages = await asyncio.gather(*(browser.get(BOARD) for _ in range(OPENED_AT_ONCE)))
    assert {page.status_code for page in pages} == {200}
    assert len({page.content for page in pages}) == len({page.headers["etag"] for page in pages})
    assert 1 <= len(paths) <= 2
    assert len({page.content for page in pages}) == 1


async def test_who_is_logged_in_sees_their_own_page_and_nobody_else_does(ways: Ways) -> None:
    owner = ways.people["owner"].account
    await run(ways, Life("s1", owner))
    cookies, _ = ways.browser_credentials("owner")
    own_tag = '<span class="tag">you</span>'
    for _ in range(2):
        async with ways.browser("nobody", {}) as browser:
            page = await browser.get(BOARD)
            assert own_tag not in page.text
        async with ways.browser("owner", cookies) as browser:
            own = await browser.get(BOARD)
            assert own_tag in own.text
            assert own.headers["etag"] != page.headers["etag"]


async def test_a_leaderboard_that_is_closed_has_no_page_from_then_on(ways: Ways) -> None:
    await run(ways, Life("s1", "p1"))
    async with ways.browser("nobody", {}) as browser:
        page = await browser.get(BOARD)
        assert page.status_code == 200
        for visibility, status in (("closed", 404), ("public", 200), ("closed", 404)):
            changed = events.LeaderboardChanged(visibility=visibility, reason="a contest")
            await say(ways.reads.log, subjects.problem("identity"), changed)
            await ways.reads.settle()
            again = await browser.get(BOARD, headers={"If-None-Match": page.headers["etag"]})
            assert again.status_code in (status, 304 if status == 200 else status)


async def test_a_page_is_rendered_again_when_it_changed_or_is_old(ways: Ways) -> None:
    await run(ways, Life("s1", "p1"))
    await ways.reads.settle()
    clock_s, rendered = 0.0, list[int]()
    kept = PageCache(RankerClient(ways.reads.http), lambda: clock_s)
    address = PageAddress.make(BOARD, f"/v1{BOARD}", limit=10, cursor=None)

    def render(board: Leaderboard) -> bytes:
        rendered.append(len(board.items))
        return str(rendered).encode()

    first = await kept.find(address, render)
    assert (await kept.find(address, render)) is first
    clock_s = RENDERED_S_MAX + 1
    assert (await kept.find(address, render)).data == b"[1, 1]"
    await run(ways, Life("s2", "p2", 50.0))
    assert (await kept.find(address, render)).data == b"[1, 1, 2]"
    assert (await kept.find(address, render)).etag != first.etag
