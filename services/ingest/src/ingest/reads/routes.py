"""Reads, forwarded to ranker with their reader; downloads and live streams piece by piece."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from ingest.http.addresses import client_address
from ingest.http.document import read_paths
from ingest.http.requests import RequestModel
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import ReadProxy
from ingest.reads.limits import DownloadLimiter, StreamLimiter
from shared.api.archive import ArchiveSearch
from shared.errors import Failed, Refused
from shared.http import DocumentedRoute, LiveResponse, TypedResponse
from shared.reader import Reader

DOWNLOAD_S_MAX = 600.0
DOTS = (".", "..")
OWN, STAFFS = "/v1/me/", "/v1/admin/"
FILES = "/v1/submissions/{number}/files/{name}"
HARNESS = "/v1/harnesses/{digest}"
RELEASE_FILE = "/v1/archive/files/{digest}"
HISTORY = "/v1/submissions/{number}/events"
LEADERBOARD_CHANGES = "/v1/leaderboards/{slug}/{gpu}/events"
RESULTS = "/v1/evaluations/{evaluation}/results"
EVENTS, JSON = "text/event-stream", "application/json"
SEARCH, SEARCH_BY_SOURCE = "/v1/archive/search", "/internal/archive/search"
SOURCE_CHARS_MAX = 64 * 1024
WORDS_CHARS_MAX, NAME_CHARS_MAX, CURSOR_CHARS_MAX = 500, 100, 256
KERNELS_MAX = 100
NUMBER_MAX = 2**53 - 1


class ProxiedDownload(Response):
    """A download from the read side, streamed, for a client that reads it in time."""

    def __init__(self, downloads: DownloadLimiter, path: str, reader: Reader, person: str) -> None:
        super().__init__()
        self.downloads, self.path, self.who, self.person = downloads, path, reader, person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it piece by piece, no faster than it is read. Raises `Failed`."""
        reads = self.downloads.reads
        async with (
            self.downloads.slot(self.person),
            reads.stream(self.path, "", {}, self.who) as stream,
        ):
            pieces = _limit_time(stream.pieces, DOWNLOAD_S_MAX)
            await LiveResponse(pieces, stream.status, stream.headers)(scope, receive, send)


class ProxiedEventStream(Response):
    """A live stream of the read side, forwarded as it arrives."""

    def __init__(self, streams: StreamLimiter, request: Request, path: str, caller: Caller) -> None:
        super().__init__()
        self.streams, self.request, self.path = streams, request, path
        self.who, self.person = caller.reader, caller.account or client_address(request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each piece at once, and end when ranker ends.

        Raises `Failed` before the first piece.
        """
        query, headers = self.request.url.query, self.request.headers
        self.streams.check(self.person, is_free=self.who.is_staff)
        with self.streams.open_stream(self.person):
            async with self.streams.reads.stream(self.path, query, headers, self.who) as stream:
                pieces = self._until_revoked(stream.pieces)
                await LiveResponse(pieces, stream.status, stream.headers)(scope, receive, send)

    async def _until_revoked(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield pieces until ranker ends or breaks off; clients reconnect by themselves.

        It also ends before the first piece that the reader may no longer read.
        """
        try:
            async for piece in pieces:
                if not await self._is_still_allowed():
                    return
                yield piece
        except Failed:
            return

    async def _is_still_allowed(self) -> bool:
        """Return whether the reader still has the same rights: tokens and invites get revoked."""
        try:
            return (await self.streams.auth.caller(self.request)).reader == self.who
        except Refused:
            return False
        except Failed:
            # Access rights are unknown for a moment; a silent log brings no new events either.
            return True


async def _limit_time(pieces: AsyncIterator[bytes], within_s: float) -> AsyncGenerator[bytes, None]:
    """Yield pieces for a limited time; a slower client gets a broken download."""
    until = time.monotonic() + within_s
    async for piece in pieces:
        if time.monotonic() > until:
            raise Failed("a download took too long")
        yield piece


def reads_router(
    ranker: ReadProxy,
    auth: Authenticator,
    streams: StreamLimiter | None = None,
    downloads: DownloadLimiter | None = None,
) -> APIRouter:
    """Every read of ranker; reads.json lists them."""
    router = APIRouter(include_in_schema=False)
    downloads, streams = (
        downloads or DownloadLimiter(ranker),
        streams or StreamLimiter(ranker, auth),
    )

    async def proxy_read(path: str, request: Request, caller: Caller) -> Response:
        query, headers = request.url.query, request.headers
        response = await ranker.read(path, query, headers, caller.reader)
        return Response(response.body, response.status, response.headers)

    @router.get(FILES)
    @router.get(HARNESS)
    @router.get(RELEASE_FILE)
    async def download(request: Request) -> Response:
        """A file of a submission's newest run, of a harness or of a release."""
        path, caller = _quote_path(request.scope["path"]), await auth.caller(request)
        person = caller.account or client_address(request)
        return ProxiedDownload(downloads, path, caller.reader, person)

    @router.get(HISTORY)
    @router.get(LEADERBOARD_CHANGES)
    async def events(request: Request) -> Response:
        """The history of a submission or the changes of a leaderboard, live or as JSON."""
        path, caller = _quote_path(request.scope["path"]), await auth.caller(request)
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            return await proxy_read(path, request, caller)
        return ProxiedEventStream(streams, request, path, caller)

    @router.get(RESULTS)
    async def results(request: Request) -> Response:
        """The results of an evaluation, as they come."""
        path, caller = _quote_path(request.scope["path"]), await auth.caller(request)
        return ProxiedEventStream(streams, request, path, caller)

    async def read(request: Request) -> Response:
        """Any other read; ranker answers it."""
        path = _quote_path(request.scope["path"])
        return await proxy_read(path, request, await _authenticate(auth, path, request))

    # One route each, so that ingest itself answers other paths with 404 or 405.
    streamed = {FILES, HARNESS, RELEASE_FILE, HISTORY, LEADERBOARD_CHANGES, RESULTS}
    for path in sorted(set(read_paths()) - streamed):
        router.add_api_route(path, read, methods=["GET"])
    return router


async def _authenticate(auth: Authenticator, path: str, request: Request) -> Caller:
    if path.startswith(OWN):
        return await auth.participant("read:own")(request)
    return await (auth.staff(request) if path.startswith(STAFFS) else auth.caller(request))


def _quote_path(path: str) -> str:
    """Return the path to forward. Raises `Refused` for one that leaves /v1 by dots."""
    if any(part in DOTS for part in path.split("/")):
        raise Refused("not_found", f"nothing exists under {path!r}")
    return quote(path)


class SearchRequest(RequestModel):
    """The parameters of the search, and a kernel or a PyTorch module to resemble."""

    source: Annotated[str, Field(min_length=1, max_length=SOURCE_CHARS_MAX)] | None = None
    q: Annotated[str, Field(max_length=WORDS_CHARS_MAX)] | None = None
    like: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = None
    problem: Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)] | None = None
    operation: Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)] | None = None
    gpu: Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)] | None = None
    language: Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)] | None = None
    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=KERNELS_MAX)] = 20


def search_router(ranker: ReadProxy, auth: Authenticator) -> APIRouter:
    """The route; `GET /v1/archive/search` is among the reads that are passed on as they are."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.post(SEARCH)
    async def search_by_source(
        body: SearchRequest, caller: Annotated[Caller, Depends(auth.caller)]
    ) -> TypedResponse[ArchiveSearch]:
        """The kernels that resemble a source, the best match first; nothing is stored.

        A body of more than 16 KiB needs a token.
        """
        data = msgspec.json.encode(body.model_dump(exclude_none=True))
        response = await ranker.post(SEARCH_BY_SOURCE, data, caller.reader)
        return TypedResponse(response.body, response.status, dict(response.headers))

    return router
