"""Reads forwarded to ranker, which owns the read models, and ingest's own queries there."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from ingest.ports import ReadResponse, ReadStream
from shared.api.contest_standings import ContestStanding
from shared.api.evaluations import CachedVerdictFound, CachedVerdicts, EvaluationResult
from shared.api.queues import QueueOfGpu
from shared.errors import Failed, unknown_submission
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
# Digests in the query of one request, which must not be too long.
VERDICTS_AT_ONCE = 64
_Item = TypeVar("_Item")
STAFF = Reader(is_staff=True)
AWAY = "the leaderboards are unavailable for a moment: try again"


class _Submission(msgspec.Struct):
    id: str


class _ProblemOf(msgspec.Struct):
    problem: str


class _Leaderboard(msgspec.Struct):
    gpu: str


class _Items(msgspec.Struct, Generic[_Item]):
    items: list[_Item]


@dataclass(frozen=True)
class RankerClient:
    """The read side over HTTP. All methods raise `Failed` if ranker does not respond."""

    client: httpx.AsyncClient

    async def read(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> ReadResponse:
        """Forward one GET."""
        request = self.client.build_request(
            "GET", _url(path, query), headers=_request_headers(headers, reader)
        )
        return await self._send(request)

    async def post(self, path: str, body: bytes, reader: Reader) -> ReadResponse:
        """Forward a read whose query is a JSON body."""
        headers = _request_headers({}, reader) | {"content-type": "application/json"}
        return await self._send(
            self.client.build_request("POST", path, headers=headers, content=body)
        )

    async def _send(self, request: httpx.Request) -> ReadResponse:
        try:
            response = await self.client.send(request)
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error
        response_headers = _response_headers(response, RETURNED)
        return ReadResponse(response.status_code, response_headers, response.content)

    @asynccontextmanager
    async def stream(
        self, path: str, query: str, headers: Mapping[str, str], reader: Reader
    ) -> AsyncIterator[ReadStream]:
        """Forward one GET, piece by piece; raises `Failed` also if the response breaks off."""
        url, request_headers = _url(path, query), _request_headers(headers, reader)
        try:
            async with self.client.stream("GET", url, headers=request_headers) as response:
                response_headers = _response_headers(response, OF_FILES)
                yield ReadStream(response.status_code, response_headers, _stream_body(response))
        except httpx.HTTPError as error:
            raise Failed(AWAY) from error

    async def submission(self, number: int) -> str:
        """Return the id of a submission. Raises `Refused` (`unknown_submission`)."""
        submission = await self._find(f"/internal/submissions/{number}", _Submission)
        if submission is None:
            raise unknown_submission(number)
        return submission.id

    async def problem_of(self, number: int, reader: Reader) -> str | None:
        """Return the problem of a submission, None if the reader sees no such submission."""
        response = await self.read(f"/v1/submissions/{number}", "", {}, reader)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Failed(AWAY)
        if response.status != HTTPStatus.OK:
            return None
        return msgspec.json.decode(response.body, type=_ProblemOf).problem

    async def rejudge_items(
        self, problem: str, select: str, from_version: int, gpu: str | None
    ) -> list[RejudgeItem]:
        """Return the submissions that may run again."""
        query = {"problem": problem, "select": select, "from_version": str(from_version)}
        query |= {} if gpu is None else {"gpu": gpu}
        return await self._list("/internal/rejudge-items", _Items[RejudgeItem], query)

    async def queue(self, gpu: str, mode: str) -> QueueOfGpu | None:
        """Return the queue of a GPU type for a mode, None for an unknown one."""
        return await self._find(f"/v1/queue/{quote(gpu, safe='')}?mode={mode}", QueueOfGpu)

    async def verdicts(
        self, sources: Sequence[str], problem_digest: str, gpu: str
    ) -> list[CachedVerdictFound]:
        """Return the known verdicts of sources, by their digests."""
        verdicts: list[CachedVerdictFound] = []
        for at in range(0, len(sources), VERDICTS_AT_ONCE):
            pairs = [("source", source) for source in sources[at : at + VERDICTS_AT_ONCE]]
            query = urlencode([*pairs, ("problem_digest", problem_digest), ("gpu", gpu)])
            response = await self.read("/internal/verdicts", query, {}, STAFF)
            verdicts += _decode(response, CachedVerdicts).items
        return verdicts

    async def results(self, evaluation: str) -> list[EvaluationResult]:
        """Return the results that an evaluation has."""
        path = f"/v1/evaluations/{quote(evaluation, safe='')}/results"
        response = await self.read(path, "wait=false", {}, STAFF)
        if response.status != httpx.codes.OK:
            raise Failed(AWAY)
        lines = (line for line in response.body.splitlines() if line)
        return [msgspec.json.decode(line, type=EvaluationResult) for line in lines]

    async def is_used(self, problem: str) -> bool:
        """Return whether a problem ever had a submission."""
        query = {"problem": problem, "limit": "1"}
        return bool(await self._list("/v1/submissions", _Items[msgspec.Raw], query))

    async def gpus_used(self, problem: str) -> frozenset[str]:
        """Return the GPU types on which any version of a problem has entries."""
        query = {"problem": problem}
        leaderboards = await self._list("/v1/leaderboards", _Items[_Leaderboard], query)
        return frozenset(leaderboard.gpu for leaderboard in leaderboards)

    async def contest_standing(self, slug: str, round_: str | None) -> ContestStanding:
        """Return the standing of a contest as organisers see it."""
        path = f"/v1/contests/{quote(slug, safe='')}/standing"
        query = {} if round_ is None else {"round": round_}
        standing = await self._find(path, ContestStanding, query)
        if standing is None:
            raise Failed(AWAY)
        return standing

    async def _list(
        self, path: str, response_type: type[_Items[_Item]], query: Mapping[str, str]
    ) -> list[_Item]:
        page = await self._find(path, response_type, query)
        if page is None:
            raise Failed(AWAY)
        return page.items

    async def _find(
        self, path: str, response_type: type[_Item], query: Mapping[str, str] | None = None
    ) -> _Item | None:
        """Return the response to a query of ingest itself, None if there is nothing."""
        response = await self.read(path, urlencode(query or {}), {}, STAFF)
        if response.status == httpx.codes.NOT_FOUND:
            return None
        return _decode(response, response_type)


def _decode(response: ReadResponse, response_type: type[_Item]) -> _Item:
    """Return the content of a response. Raises `Failed`."""
    if response.status != httpx.codes.OK:
        raise Failed(AWAY)
    try:
        return msgspec.json.decode(response.body, type=response_type)
    except msgspec.DecodeError as error:
        raise Failed(f"the read side sent an invalid response: {error}") from error


async def _stream_body(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `Failed` if it breaks off."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise Failed(AWAY) from error


def _url(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _request_headers(headers: Mapping[str, str], reader: Reader) -> dict[str, str]:
    """Return the headers to forward; only ingest sets the reader."""
    forwarded = {name: headers[name] for name in PASSED if name in headers}
    return forwarded | {READER_HEADER: encode_reader(reader)}


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
