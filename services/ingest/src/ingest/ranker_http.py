"""Reads, passed on to ranker, which owns the read models; and what ingest itself asks there."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from ingest.service.ports import Answer, QueueSeen, Stream, Wanted
from shared.errors import Failed, Refused
from shared.events import RejudgeItem
from shared.reader import HEADER, Reader, encode
from shared.reader_authentication import KEY_HEADER

# Live streams hold a connection each; what is left over is for reads.
READERS_MAX = 2000
# For each request a pool looks through all that it holds: with 50 open in one, a request took 4 ms
# of a processor, spread over many 1.7 ms (two cores of an AMD EPYC, Python 3.11, 2026-11).
POOLS = 64
# ranker closes what is idle for 5 s: what is nearly that old may be closed as it is used again.
IDLE_S_MAX = 2.0
PASSED = ("accept", "if-none-match", "last-event-id")
RETURNED = (
    *("content-type", "etag", "cache-control", "retry-after", "x-accel-buffering", "x-request-id"),
    *("content-disposition", "x-content-type-options", "warpboard-projection-lag"),
)
OF_FILES = (*RETURNED, "content-length")
_Kind = TypeVar("_Kind", bound=msgspec.Struct)
STAFF = Reader(is_staff=True)
AWAY = "the leaderboards cannot be read for a moment; ask again"


class _Submission(msgspec.Struct):
    id: str


class _Items(msgspec.Struct):
    items: list[RejudgeItem]


class _Board(msgspec.Struct):
    """A leaderboard with an entry."""

    gpu: str


class _Boards(msgspec.Struct):
    """Leaderboards with entries."""

    items: list[_Board]


class _Some(msgspec.Struct):
    items: list[msgspec.Raw]


@dataclass(frozen=True)
class Ranker:
    """The read side, asked over HTTP."""

    client: httpx.AsyncClient

    async def read(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> Answer:
        """Pass one GET on. Errors: Failed if ranker does not answer."""
        answer = await self._get(_url(path, query), _passed(headers, reader))
        return Answer(answer.status_code, _returned(answer, RETURNED), answer.content)

    @asynccontextmanager
    async def stream(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> AsyncIterator[Stream]:
        """Pass a GET on, piece by piece. Errors: Failed if ranker does not answer."""
        passed = _passed(headers, reader)
        try:
            async with self.client.stream("GET", _url(path, query), headers=passed) as answer:
                sent = _returned(answer, OF_FILES)
                yield Stream(answer.status_code, sent, _pieces(answer))
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error

    async def submission(self, number: int) -> str:
        """The id of a submission. Errors: Refused `unknown_submission`; Failed."""
        answer = await self._get(f"/internal/submissions/{number}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise Refused("unknown_submission", f"there is no submission {number}", "number")
        return _read(answer, _Submission).id

    async def rejudge_items(self, which: Wanted) -> list[RejudgeItem]:
        """The submissions that may run again. Errors: Failed."""
        asked = which._asdict()
        query = {key: value for key, value in asked.items() if value is not None}
        return _read(await self._get("/internal/rejudge-items", query=query), _Items).items

    async def queue(self, gpu: str) -> QueueSeen:
        """What waits for a GPU type; nothing for one it has not met. Errors: Failed."""
        answer = await self._get(f"/v1/queue/{quote(gpu, safe='')}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return QueueSeen(gpu=gpu)
        return _read(answer, QueueSeen)

    async def is_used(self, problem: str) -> bool:
        """Whether anybody ever submitted to a problem. Errors: Failed."""
        asked: dict[str, str | int] = {"problem": problem, "limit": 1}
        answer = await self._get("/v1/submissions", {HEADER: encode(STAFF)}, asked)
        return bool(_read(answer, _Some).items)

    async def gpus_used(self, problem: str) -> frozenset[str]:
        """The GPU types on which a problem has entries, of any version. Errors: Failed."""
        asked: dict[str, str | int] = {"problem": problem}
        answer = await self._get("/v1/leaderboards", {HEADER: encode(STAFF)}, asked)
        return frozenset(one.gpu for one in _read(answer, _Boards).items)

    async def _get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> httpx.Response:
        try:
            return await self.client.get(url, headers=headers, params=query)
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """What comes, as it comes. Errors: Failed if it breaks off."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise Failed(AWAY) from error


def _read(answer: httpx.Response, kind: type[_Kind]) -> _Kind:
    """What ranker answered us, never somebody else. Errors: Failed."""
    if answer.status_code != httpx.codes.OK:
        raise Failed(AWAY)
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Failed(f"the read side answered what cannot be read: {error}") from error


def _url(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _passed(headers: Mapping[str, str], reader: Reader) -> dict[str, str]:
    """What ranker is told of a request; who reads, ingest alone says."""
    return {name: headers[name] for name in PASSED if name in headers} | {HEADER: encode(reader)}


def _returned(answer: httpx.Response, names: Sequence[str]) -> dict[str, str]:
    return {name: answer.headers[name] for name in names if name in answer.headers}


class Pools(httpx.AsyncBaseTransport):
    """Connections in many small pools, of which each request takes the first with fewest open."""

    def __init__(self) -> None:
        connections_max = READERS_MAX // POOLS
        limits = httpx.Limits(max_connections=connections_max, keepalive_expiry=IDLE_S_MAX)
        context = httpx.create_ssl_context()
        self.pools = [_Pool(context, limits=limits) for _ in range(POOLS)]
        self.open = [0] * POOLS
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to close connections that nobody uses any more."""
        self._closing = asyncio.create_task(self._close_expired())
        return self

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask; it is open until its answer is closed. Errors: those of httpx."""
        place = self.open.index(min(self.open))
        self.open[place] += 1
        try:
            answer = await self.pools[place].handle_async_request(request)
        except BaseException:
            self.open[place] -= 1
            raise
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        answer.stream = _Counted(answer.stream, partial(self._closed, place))
        return answer

    async def aclose(self) -> None:
        """Close every connection."""
        if self._closing is not None:
            self._closing.cancel()
            await asyncio.wait({self._closing})
        for one in self.pools:
            await one.aclose()

    async def _close_expired(self) -> None:
        while True:
            await asyncio.sleep(IDLE_S_MAX)
            for one in self.pools:
                await one.close_expired()

    def _closed(self, place: int) -> None:
        self.open[place] -= 1


class _Pool(httpx.AsyncHTTPTransport):
    """A pool that can be asked to close what nobody uses any more.

    By itself it does so with its next request only: what ranker has closed stays half open until
    then, in CLOSE_WAIT, and most of many pools have no next request for a long time.
    """

    async def close_expired(self) -> None:
        """Close connections that are idle for too long, or that the other side has closed."""
        for connection in self._pool.connections:
            if connection.has_expired():
                await connection.aclose()


class _Counted(httpx.AsyncByteStream):
    """The body of an answer, which tells once that it was closed."""

    def __init__(self, body: httpx.AsyncByteStream, closed: Callable[[], None]) -> None:
        self.body = body
        self.closed: Callable[[], None] | None = closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.body:
            yield piece

    async def aclose(self) -> None:
        closed, self.closed = self.closed, None
        if closed is not None:
            closed()
        await self.body.aclose()


def client(url: str, reader_key: str) -> httpx.AsyncClient:
    """A client with limits: connect in 10 s, answer in 30 s (a read may wait 25 s for news).

    It shows ranker the key by which that believes who reads.

    Who is not there refuses at once; a machine that is merely busy may take seconds to connect.
    """
    timeout = httpx.Timeout(30, connect=10)
    headers = {KEY_HEADER: reader_key}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=Pools())
