"""Caches the responses of leaderboards until an event changes them."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ranker.http.responses import known_tags
from ranker.service.progress import LeaderboardVersion, ProjectionProgress
from shared.clock import now
from shared.reader import READER_HEADER
from shared.single_flight import SingleFlight

LEADERBOARD = re.compile(r"/v1/leaderboards/([^/]+)/[^/]+(?:/practice)?")
BYTES_MAX = 32 * 1024 * 1024
# Names, agents online and the clock change a leaderboard without an event.
AGE_S_MAX = 0.25
IF_NONE_MATCH = b"if-none-match"


class PageKey(NamedTuple):
    """What a response depends on beside the version of its leaderboard.

    `second` counts the seconds of the wall clock: a phase of a contest, which may hide a
    leaderboard, begins with one.
    """

    path: str
    query: bytes
    reader: str
    second: int


@dataclass(frozen=True)
class CachedResponse:
    """A response, when its read began, and the version of the leaderboard at that time."""

    version: LeaderboardVersion
    read_at: float
    status: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    @property
    def etag(self) -> str:
        """Its ETag, "" for a refusal."""
        return Headers(raw=list(self.headers)).get("etag", "")


class LeaderboardCache:
    """Answers reads of a leaderboard with the bytes of the same read before.

    Bytes are kept by path, query and reader, so nobody is answered with what another may see. They
    count while the version of the leaderboard is the same, at most for `AGE_S_MAX` and not after
    the second in which they were read.
    """

    def __init__(
        self,
        app: ASGIApp,
        progress: ProjectionProgress,
        bytes_max: int = BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self._progress = progress
        self._bytes_max = bytes_max
        self._clock = clock
        self._pages: OrderedDict[PageKey, CachedResponse] = OrderedDict()
        self._reads: SingleFlight[tuple[PageKey, LeaderboardVersion], CachedResponse] = (
            SingleFlight()
        )
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or pass the request on. Source: the ASGI specification."""
        board = LEADERBOARD.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if board is None or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        second = int(now().timestamp())
        key = PageKey(scope["path"], scope["query_string"], headers.get(READER_HEADER, ""), second)
        page = self._find(key, board[1])
        if page is None:
            # Requests that arrive during a read share it, unless an event came in between.
            version = self._progress.leaderboard_version(board[1])
            read = partial(self._read, scope, key, version)
            page = await self._reads.join((key, version), read)
        await _send(page, headers, send)

    def _find(self, key: PageKey, problem: str) -> CachedResponse | None:
        """Return a response that is still valid."""
        page = self._pages.get(key)
        if page is None or page.version != self._progress.leaderboard_version(problem):
            return None
        if self._clock() - page.read_at > AGE_S_MAX:
            return None
        self._pages.move_to_end(key)
        return page

    async def _read(
        self, scope: Scope, key: PageKey, version: LeaderboardVersion
    ) -> CachedResponse:
        page = CachedResponse(version, self._clock())

        async def collect(message: Message) -> None:
            nonlocal page
            if message["type"] == "http.response.start":
                headers = tuple(message.get("headers", ()))
                page = replace(page, status=message["status"], headers=headers)
            else:
                page = replace(page, body=page.body + message.get("body", b""))

        # The whole response is cached; a reader who has it already gets 304 from here.
        headers = [pair for pair in scope["headers"] if pair[0].lower() != IF_NONE_MATCH]
        await self.app({**scope, "headers": headers}, _receive_nothing, collect)
        self._keep(key, page)
        return page

    def _keep(self, key: PageKey, page: CachedResponse) -> None:
        """Cache a response unless it is a refusal; the least recently used are dropped."""
        dropped = self._pages.pop(key, None)
        self._bytes -= len(dropped.body) if dropped is not None else 0
        if not page.etag:
            return
        self._pages[key] = page
        self._bytes += len(page.body)
        while self._bytes > self._bytes_max:
            _, oldest = self._pages.popitem(last=False)
            self._bytes -= len(oldest.body)


async def _receive_nothing() -> Message:
    """The empty body of a read, which continues when its first reader has disconnected."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(page: CachedResponse, request_headers: Mapping[str, str], send: Send) -> None:
    is_known = bool(page.etag) and page.etag in known_tags(request_headers)
    headers = [pair for pair in page.headers if not (is_known and pair[0] == b"content-length")]
    status = 304 if is_known else page.status
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_known else page.body})
