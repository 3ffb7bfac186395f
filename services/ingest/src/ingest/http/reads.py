"""Reads: passed on to ranker with who asks, downloads and live streams piece by piece."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote
from weakref import WeakValueDictionary

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from ingest.domain.callers import Caller
from ingest.http.document import describe, read_paths
from ingest.http.who import Gate, whence
from ingest.service.ports import Reads
from shared.errors import Failed, Refused
from shared.file_limit import STREAMS_MAX
from shared.http import Live
from shared.reader import Reader

DOWNLOADS_MAX, OWN_DOWNLOADS_MAX = 16, 2
DOWNLOAD_S_MAX = 600.0
OWN_STREAMS_MAX = 100
DOTS = (".", "..")
OWN, STAFFS = "/v1/me/", "/v1/admin/"
FILES = "/v1/submissions/{number}/files/{name}"
HARNESS = "/v1/harnesses/{digest}"
HISTORY = "/v1/submissions/{number}/events"
EVENTS, JSON = "text/event-stream", "application/json"


class Downloads:
    """Who downloads: so many at once, and few of one person, who would hold up everybody."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._slots = asyncio.Semaphore(DOWNLOADS_MAX)
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Wait for one's turn, behind one's own downloads first."""
        own = self._own.setdefault(person, asyncio.Semaphore(OWN_DOWNLOADS_MAX))
        async with own, self._slots:
            yield


class PassedOn(Response):
    """A download from the read side, never whole in memory, for a reader who takes it in time."""

    def __init__(self, downloads: Downloads, path: str, who: Reader, person: str) -> None:
        super().__init__()
        self.downloads, self.path, self.who, self.person = downloads, path, who, person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it piece by piece, no faster than it is read. Errors: Failed."""
        reads = self.downloads.reads
        async with (
            self.downloads.turn(self.person),
            reads.stream(self.path, "", {}, self.who) as stream,
        ):
            pieces = _within(stream.pieces, DOWNLOAD_S_MAX)
            await Live(pieces, stream.status, stream.headers)(scope, receive, send)


class Followed(Response):
    """A live stream of the read side, passed on as it comes to one of many readers."""

    def __init__(self, streams: "Streams", request: Request, path: str, caller: Caller) -> None:
        super().__init__()
        self.streams, self.request, self.path = streams, request, path
        self.who, self.person = caller.reader, caller.account or whence(request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each piece at once, and nothing once ranker is gone. Errors: Failed at first."""
        query, headers = self.request.url.query, self.request.headers
        self.streams.check(self.person, is_free=self.who.is_staff)
        with self.streams.one_more(self.person):
            async with self.streams.reads.stream(self.path, query, headers, self.who) as stream:
                pieces = _until_gone(stream.pieces, self._is_same)
                await Live(pieces, stream.status, stream.headers)(scope, receive, send)

    async def _is_same(self) -> bool:
        """Whether who reads may still read the same: tokens are revoked, invites taken back."""
        try:
            return (await self.streams.gate.caller(self.request)).reader == self.who
        except Refused:
            return False
        except Failed:
            # Nothing is known for a moment, and nothing new is told by a log that is silent.
            return True


class Streams:
    """How many live streams are open, each of which holds connections and memory."""

    def __init__(self, reads: Reads, gate: Gate, streams_max: int = STREAMS_MAX) -> None:
        self.reads = reads
        self.gate = gate
        self.streams_max = streams_max
        self.open: Counter[str] = Counter()

    def check(self, person: str, *, is_free: bool = False) -> None:
        """Refuse one stream too many. Errors: Refused `too_many_streams`.

        One person has few, but for staff, and where names are believed.
        """
        is_free = is_free or self.gate.are_names_believed
        if self.open.total() >= self.streams_max:
            what = f"{self.streams_max} streams are open here: ask again in a moment"
            raise Refused("too_many_streams", what, None, 2.0)
        if self.open[person] >= OWN_STREAMS_MAX and not is_free:
            what = f"you have {OWN_STREAMS_MAX} streams open here: close one first"
            raise Refused("too_many_streams", what, None, 2.0)

    @contextmanager
    def one_more(self, person: str) -> Iterator[None]:
        """Count one stream for as long as it is open."""
        self.open[person] += 1
        try:
            yield
        finally:
            self.open[person] -= 1
            self.open += Counter()  # Forgets who has none.


async def _within(pieces: AsyncIterator[bytes], within_s: float) -> AsyncGenerator[bytes, None]:
    """Pieces, for so long in all: whoever takes longer has a broken download."""
    until = time.monotonic() + within_s
    async for piece in pieces:
        if time.monotonic() > until:
            raise Failed("a download took too long")
        yield piece


async def _until_gone(
    pieces: AsyncIterator[bytes], is_same: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Pieces, until ranker ends them or breaks off: who reads them comes again by itself.

    They end, too, before the first that who reads may not read any more.
    """
    try:
        async for piece in pieces:
            if not await is_same():
                return
            yield piece
    except Failed:
        return


def reads(app: FastAPI, reader: Reads, gate: Gate, streams: Streams | None = None) -> None:
    """Every read that is ranker's: reads.json says what there is."""
    describe(app)
    downloads, streams = Downloads(reader), streams or Streams(reader, gate)

    @app.get(FILES, include_in_schema=False)
    async def download(number: int, name: str, request: Request) -> Response:
        """A file of a submission's newest run: its log, its samples, an artefact."""
        path = _passable(f"/v1/submissions/{number}/files/{name}")
        caller = await gate.caller(request)
        return PassedOn(downloads, path, caller.reader, caller.account or whence(request))

    @app.get(HARNESS, include_in_schema=False)
    async def harness(digest: str, request: Request) -> Response:
        """The files of a harness code."""
        path = _passable(f"/v1/harnesses/{digest}")
        caller = await gate.caller(request)
        return PassedOn(downloads, path, caller.reader, caller.account or whence(request))

    @app.get(HISTORY, include_in_schema=False)
    async def events(number: int, request: Request) -> Response:
        """The history of a submission, live as server-sent events, or as a JSON array."""
        caller, path = await gate.caller(request), f"/v1/submissions/{number}/events"
        accept = request.headers.get("accept", "")
        if JSON in accept and EVENTS not in accept:
            query, headers = request.url.query, request.headers
            answer = await reader.read(path, query, headers, caller.reader)
            return Response(answer.body, answer.status, answer.headers)
        return Followed(streams, request, path, caller)

    mine, staff = gate.participant("read:own"), gate.staff

    async def read(request: Request) -> Response:
        """Every other read: answered by ranker."""
        url = _passable(request.scope["path"])
        ask = mine if url.startswith(OWN) else staff if url.startswith(STAFFS) else gate.caller
        who = (await ask(request)).reader
        answer = await reader.read(url, request.url.query, request.headers, who)
        return Response(answer.body, answer.status, answer.headers)

    # One route each, so that what is no read is told so here: 404, or 405 with what there is.
    for path in sorted(set(read_paths()) - {FILES, HARNESS, HISTORY}):
        app.add_api_route(path, read, methods=["GET"], include_in_schema=False)


def _passable(path: str) -> str:
    """A path as it is passed on. Errors: Refused for one that leads out of /v1, by dots."""
    if any(part in DOTS for part in path.split("/")):
        raise Refused("not_found", f"there is nothing under {path!r}")
    return quote(path)
