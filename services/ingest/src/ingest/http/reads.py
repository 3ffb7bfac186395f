"""Reads: passed on to ranker with who asks, downloads and live streams piece by piece."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ingest.http.document import describe, read_paths
from ingest.http.who import Gate
from ingest.service.ports import Reads
from shared.errors import Failed, Refused
from shared.http import Live
from shared.reader import Reader

DOWNLOADS_MAX = 16
STREAMS_MAX = 1000
DOTS = (".", "..")
OWN, STAFFS = "/v1/me/", "/v1/admin/"
FILES = "/v1/submissions/{number}/files/{name}"
HISTORY = "/v1/submissions/{number}/events"
EVENTS, JSON = "text/event-stream", "application/json"


class PassedOn(Response):
    """A download from the read side, never whole in memory; at most so many at once as `slots`."""

    def __init__(self, reads: Reads, path: str, who: Reader, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.reads, self.path, self.who, self.slots = reads, path, who, slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it piece by piece, no faster than it is read. Errors: Failed."""
        async with self.slots, self.reads.stream(self.path, "", {}, self.who) as stream:
            passed = StreamingResponse(stream.pieces, stream.status, stream.headers)
            await passed(scope, receive, send)


class Followed(Response):
    """A live stream of the read side, passed on as it comes to one of many readers."""

    def __init__(self, streams: "Streams", request: Request, path: str, who: Reader) -> None:
        super().__init__()
        self.streams, self.request, self.path, self.who = streams, request, path, who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each piece at once, and nothing once ranker is gone. Errors: Failed at first."""
        query, headers = self.request.url.query, self.request.headers
        with self.streams.one_more():
            async with self.streams.reads.stream(self.path, query, headers, self.who) as stream:
                pieces = _until_gone(stream.pieces)
                await Live(pieces, stream.status, stream.headers)(scope, receive, send)


class Streams:
    """How many live streams are open, each of which holds two connections."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.open = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one stream for as long as it is open. Errors: Refused `too_many_streams`."""
        if self.open >= STREAMS_MAX:
            what = f"{STREAMS_MAX} streams are open here: ask again in a moment"
            raise Refused("too_many_streams", what, None, 2.0)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


async def _until_gone(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Pieces, until ranker ends them or breaks off: who reads them comes again by itself."""
    try:
        async for piece in pieces:
            yield piece
    except Failed:
        return


def reads(app: FastAPI, reader: Reads, gate: Gate) -> None:
    """Every read that is ranker's: reads.json says what there is."""
    describe(app)
    slots, streams = asyncio.Semaphore(DOWNLOADS_MAX), Streams(reader)

    @app.get(FILES, include_in_schema=False)
    async def download(number: int, name: str, request: Request) -> Response:
        """A file of a submission's newest run: its log, its samples, an artefact."""
        path = _passable(f"/v1/submissions/{number}/files/{name}")
        return PassedOn(reader, path, (await gate.caller(request)).reader, slots)

    @app.get(HISTORY, include_in_schema=False)
    async def events(number: int, request: Request) -> Response:
        """The history of a submission, live as server-sent events, or as a JSON array."""
        who, path = (await gate.caller(request)).reader, f"/v1/submissions/{number}/events"
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            answer = await reader.read(path, request.url.query, request.headers, who)
            return Response(answer.body, answer.status, answer.headers)
        return Followed(streams, request, path, who)

    mine = gate.participant("read:own")

    async def read(request: Request) -> Response:
        """Every other read: answered by ranker."""
        url = _passable(request.scope["path"])
        caller = await (mine if url.startswith(OWN) else gate.caller)(request)
        if url.startswith(STAFFS) and caller.account and not caller.is_staff:
            raise Refused("scope_missing", "this is for operators: it needs a scope of admin")
        who = caller.reader
        answer = await reader.read(url, request.url.query, request.headers, who)
        return Response(answer.body, answer.status, answer.headers)

    # One route each, so that what is no read is told so here: 404, or 405 with what there is.
    for path in sorted(set(read_paths()) - {FILES, HISTORY}):
        app.add_api_route(path, read, methods=["GET"], include_in_schema=False)


def _passable(path: str) -> str:
    """A path as it is passed on. Errors: Refused for one that leads out of /v1, by dots."""
    if any(part in DOTS for part in path.split("/")):
        raise Refused("not_found", f"there is nothing under {path!r}")
    return quote(path)
