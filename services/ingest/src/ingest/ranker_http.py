"""Reads forwarded to ranker, which owns the read models, and ingest's own queries there."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from ingest.ports import ReadResponse, ReadStream
from shared.api.queues import QueueSnapshot
from shared.errors import Failed, Refused
from shared.events import RejudgeItem
from shared.reader import KEY_HEADER, READER_HEADER, Reader, encode_reader

# Live streams hold a connection each; the rest is for reads.
READERS_MAX = 2000
# For each request a pool scans all its connections: with 50 open in one pool a request took 4 ms of
# CPU, spread over many pools 1.7 ms (two cores of an AMD EPYC, Python 3.11, 2026-11).
POOLS = 64
# ranker closes connections idle for 5 s: one nearly that old may be closed while it is reused.
IDLE_S_MAX = 2.0
PASSED = ("accept", "if-none-match", "last-event-id")
RETURNED = (
    *("content-type", "etag", "cache-control", "retry-after", "x-accel-buffering", "x-request-id"),
    *("content-disposition", "x-content-type-options", "warpboard-projection-lag"),
)
OF_FILES = (*RETURNED, "content-length")
_Kind = TypeVar("_Kind", bound=msgspec.Struct)
STAFF = Reader(is_staff=True)
AWAY = "the leaderboards are unavailable for a moment: try again"


class _Submission(msgspec.Struct):
    id: str


class _Items(msgspec.Struct):
    items: list[RejudgeItem]


class _Leaderboard(msgspec.Struct):
    """A leaderboard with entries."""

    gpu: str


class _Leaderboards(msgspec.Struct):
    """The leaderboards with entries."""

    items: list[_Leaderboard]


class _AnyItems(msgspec.Struct):
    items: list[msgspec.Raw]


@dataclass(frozen=True)
class RankerClient:
    """The read side over HTTP."""

    client: httpx.AsyncClient

    async def read(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> ReadResponse:
        """Forward one GET. Raises `Failed` if ranker does not respond."""
        response = await self._get(_url(path, query), _request_headers(headers, reader))
        return ReadResponse(
            response.status_code, _response_headers(response, RETURNED), response.content
        )

    @asynccontextmanager
    async def stream(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> AsyncIterator[ReadStream]:
        """Forward one GET, piece by piece. Raises `Failed` if ranker does not respond."""
        request_headers = _request_headers(headers, reader)
        try:
            async with self.client.stream(
                "GET", _url(path, query), headers=request_headers
            ) as response:
                response_headers = _response_headers(response, OF_FILES)
                yield ReadStream(response.status_code, response_headers, _stream_body(response))
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error

    async def submission(self, number: int) -> str:
        """Return the id of a submission. Raises `Refused` (`unknown_submission`) and `Failed`."""
        response = await self._get(f"/internal/submissions/{number}")
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Refused("unknown_submission", f"there is no submission {number}", "number")
        return _decode(response, _Submission).id

    async def rejudge_items(
        self, problem: str, select: str, from_version: int, gpu: str | None
    ) -> list[RejudgeItem]:
        """Return the submissions that may run again. Raises `Failed`."""
        query: dict[str, str | int] = {
            "problem": problem,
            "select": select,
            "from_version": from_version,
        }
        if gpu is not None:
            query["gpu"] = gpu
        return _decode(await self._get("/internal/rejudge-items", query=query), _Items).items

    async def queue(self, gpu: str) -> QueueSnapshot:
        """Return the queue of a GPU type, empty for an unknown one. Raises `Failed`."""
        response = await self._get(f"/v1/queue/{quote(gpu, safe='')}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return QueueSnapshot(
                gpu=gpu,
                state="queued",
                waiting=0,
                run_s=None,
                agents_online=0,
                agents_busy=0,
                reason=None,
                as_of=None,
            )
        return _decode(response, QueueSnapshot)

    async def is_used(self, problem: str) -> bool:
        """Return whether a problem ever had a submission. Raises `Failed`."""
        query: dict[str, str | int] = {"problem": problem, "limit": 1}
        response = await self._get("/v1/submissions", {READER_HEADER: encode_reader(STAFF)}, query)
        return bool(_decode(response, _AnyItems).items)

    async def gpus_used(self, problem: str) -> frozenset[str]:
        """Return the GPU types on which any version of a problem has entries. Raises `Failed`."""
        query: dict[str, str | int] = {"problem": problem}
        response = await self._get("/v1/leaderboards", {READER_HEADER: encode_reader(STAFF)}, query)
        return frozenset(leaderboard.gpu for leaderboard in _decode(response, _Leaderboards).items)

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


async def _stream_body(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `Failed` if it breaks off."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise Failed(AWAY) from error


def _decode(response: httpx.Response, response_type: type[_Kind]) -> _Kind:
    """Decode a response to a query of ingest itself. Raises `Failed`."""
    if response.status_code != httpx.codes.OK:
        raise Failed(AWAY)
    try:
        return msgspec.json.decode(response.content, type=response_type)
    except msgspec.DecodeError as error:
        raise Failed(f"the read side sent an invalid response: {error}") from error


def _url(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _request_headers(headers: Mapping[str, str], reader: Reader) -> dict[str, str]:
    """Return the headers to forward; only ingest sets the reader."""
    return {name: headers[name] for name in PASSED if name in headers} | {
        READER_HEADER: encode_reader(reader)
    }


def _response_headers(response: httpx.Response, names: Sequence[str]) -> dict[str, str]:
    return {name: response.headers[name] for name in names if name in response.headers}


class Pools(httpx.AsyncBaseTransport):
    """Connections in many small pools; each request uses the pool with the fewest open ones."""

    def __init__(self) -> None:
        connections_max = READERS_MAX // POOLS
        limits = httpx.Limits(max_connections=connections_max, keepalive_expiry=IDLE_S_MAX)
        context = httpx.create_ssl_context()
        self.pools = [_Pool(context, limits=limits) for _ in range(POOLS)]
        self.open = [0] * POOLS
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start closing connections that are no longer used."""
        self._closing = asyncio.create_task(self._close_expired())
        return self

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; it counts as open until its response is closed. Raises httpx errors."""
        index = self.open.index(min(self.open))
        self.open[index] += 1
        try:
            response = await self.pools[index].handle_async_request(request)
        except BaseException:
            self.open[index] -= 1
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _TrackedBody(response.stream, partial(self._release, index))
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        if self._closing is not None:
            self._closing.cancel()
            await asyncio.wait({self._closing})
        for pool in self.pools:
            await pool.aclose()

    async def _close_expired(self) -> None:
        while True:
            await asyncio.sleep(IDLE_S_MAX)
            for pool in self.pools:
                await pool.close_expired()

    def _release(self, index: int) -> None:
        self.open[index] -= 1


class _Pool(httpx.AsyncHTTPTransport):
    """A pool that can close its unused connections on demand.

    By itself it does so only with its next request. Until then, connections that ranker has closed
    stay half open in CLOSE_WAIT, and most of many pools have no next request for a long time.
    """

    async def close_expired(self) -> None:
        """Close connections that were idle too long or that the other side has closed."""
        for connection in self._pool.connections:
            if connection.has_expired():
                await connection.aclose()


class _TrackedBody(httpx.AsyncByteStream):
    """A response body that reports when it is closed."""

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


def open_client(url: str, reader_key: str) -> httpx.AsyncClient:
    """Return a client with limits: connect in 10 s, respond in 30 s (a read may wait 25 s).

    It sends the key that lets ranker trust the reader. An unreachable host refuses at once; a busy
    machine may take seconds to connect.
    """
    timeout = httpx.Timeout(30, connect=10)
    headers = {KEY_HEADER: reader_key}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=Pools())
