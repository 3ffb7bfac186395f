"""Caches the rendered pages of leaderboards for visitors who are not logged in.

For each request, ranker is asked whether the leaderboard is still the same; requests that arrive
while it is asked share the next question. So a page is never older than the request, and a page
that many open costs one question and no rendering.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from ingest.identity.login.web import make_etag
from ingest.ports import ReadProxy
from ingest.site.reads import NOT_MODIFIED, check_response, decode_response
from shared.api.leaderboards import Leaderboard
from shared.reader import ANONYMOUS_READER
from shared.single_flight import FreshFlight

# Each has at most about 200 kB.
PAGES_MAX = 100
# The page says in words how long it is until the deadline.
RENDERED_S_MAX = 5.0

Render = Callable[[Leaderboard], bytes]


class CachedPage(NamedTuple):
    """A rendered page, and the leaderboard that it shows with its ETag at ranker."""

    board: Leaderboard
    board_etag: str
    data: bytes
    etag: str
    rendered_at: float


class PageAddress(NamedTuple):
    """The address of a page, and what it reads of ranker."""

    url: str
    path: str
    query: str

    @classmethod
    def make(cls, url: str, path: str, **query: object) -> "PageAddress":
        """Return the address of a page that reads a path; parameters of None are left out."""
        return cls(url, path, urlencode({k: v for k, v in query.items() if v is not None}))


class PageCache:
    """The most recently read pages; `clock` is monotonic."""

    def __init__(self, ranker: ReadProxy, clock: Callable[[], float] = time.monotonic) -> None:
        self._ranker = ranker
        self._clock = clock
        self._pages: OrderedDict[PageAddress, CachedPage] = OrderedDict()
        self._reads: FreshFlight[PageAddress, CachedPage] = FreshFlight()

    async def find(self, address: PageAddress, render: Render) -> CachedPage:
        """Return a page as it is now. Raises `Refused` and `Failed`."""
        return await self._reads.join(address, partial(self._read, address, render))

    async def _read(self, address: PageAddress, render: Render) -> CachedPage:
        page = self._pages.pop(address, None)
        known = {} if page is None else {"if-none-match": page.board_etag}
        response = await self._ranker.read(address.path, address.query, known, ANONYMOUS_READER)
        body = check_response(address.path, response.status, response.body)
        if page is None or response.status != NOT_MODIFIED:
            board = decode_response(address.path, body, Leaderboard)
            page = self._render(board, response.headers.get("etag", ""), render)
        elif self._clock() - page.rendered_at > RENDERED_S_MAX:
            page = self._render(page.board, page.board_etag, render)
        self._pages[address] = page
        if len(self._pages) > PAGES_MAX:
            self._pages.popitem(last=False)
        return page

    def _render(self, board: Leaderboard, board_etag: str, render: Render) -> CachedPage:
        data = render(board)
        return CachedPage(board, board_etag, data, make_etag(data), self._clock())
