"""Reads: passed on to ranker, downloads piece by piece."""

import asyncio
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ingest.service.ports import Reads
from shared.errors import Refused

DOWNLOADS_MAX = 16
DOTS = (".", "..")


class PassedOn(Response):
    """A download from the read side, never whole in memory; at most so many at once as `slots`."""

    def __init__(self, reader: Reads, path: str, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.reader, self.path, self.slots = reader, path, slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it piece by piece, no faster than it is read. Errors: Failed."""
        async with self.slots, self.reader.stream(self.path) as stream:
            passed = StreamingResponse(stream.pieces, stream.status, stream.headers)
            await passed(scope, receive, send)


def reads(app: FastAPI, reader: Reads) -> None:
    """Every GET under /v1 that is nobody else's."""
    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @app.get("/v1/submissions/{number}/files/{name}")
    async def download(number: int, name: str) -> Response:
        """A file of a submission's newest run: its log, its samples, an artefact."""
        path = f"/v1/submissions/{number}/files/{_passable(name)}"
        return PassedOn(reader, path, slots)

    @app.get("/v1/{path:path}")
    async def read(path: str, request: Request) -> Response:
        """Every read: answered by ranker."""
        answer = await reader.read(f"/v1/{_passable(path)}", request.url.query, request.headers)
        return Response(answer.body, answer.status, answer.headers)


def _passable(path: str) -> str:
    """A path as it is passed on. Errors: Refused for one that leads out of /v1, by dots."""
    if any(part in DOTS for part in path.split("/")):
        raise Refused("not_found", f"there is nothing under {path!r}")
    return quote(path)
