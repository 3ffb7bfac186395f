"""Downloads: a run's files, sources as text, and the harness codes that judge here."""

import asyncio
import re
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Response
from msgspec import convert
from starlette.types import Receive, Scope, Send

from ranker.http.access import CurrentReader, ReadSources
from ranker.http.responses import Limit, NumberInPath
from shared.api.agents import Harness, Harnesses
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Refused
from shared.http import DocumentedRoute

# Each may hold a whole blob in memory while it is sent.
DOWNLOADS_MAX = 4
# Agents choose the media type; it must not inject anything into our headers.
MEDIA = re.compile(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}\Z")
BYTES = "application/octet-stream"


class DownloadResponse(Response):
    """A blob to send; `slots` limits how many are in memory at once.

    With `is_harness_code` only a harness code is sent.
    """

    is_harness_code = False

    def __init__(self, blobs: BlobStore, digest: str, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.blobs, self.digest, self.slots = blobs, digest, slots
        self.sent = {"X-Content-Type-Options": "nosniff", "ETag": f'"{digest}"'}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fetch and send. Raises Failed, or Refused if the blob is gone or must not be sent."""
        async with self.slots:
            try:
                data = await self.blobs.get(self.digest)
            except BlobNotFound as missing:
                raise Refused("not_found", f"the file is no longer stored: {missing}") from missing
            if self.is_harness_code and not is_harness(data):
                raise _unknown_harness(self.digest)
            await Response(data, 200, self.sent)(scope, receive, send)


async def source_text(blobs: BlobStore, digest: str) -> str:
    """A source as text, whatever its bytes. Raises Failed, or Refused if it is gone."""
    try:
        return (await blobs.get(digest)).decode("utf-8", "replace")
    except BlobNotFound as missing:
        raise Refused("not_found", f"the source is no longer stored: {missing}") from missing


ZIP = "application/zip"
DIGEST_SHOWN, VERSION_MAX = 12, 20
UNSAFE_CHARS = re.compile(r"[^A-Za-z0-9]+")
# A harness zip begins with the header of its first file; the file's name follows after 30 bytes.
ZIP_MAGIC, FIRST_NAME = b"PK\x03\x04", b"harness/__init__.py"
NAME_OFFSET = 30

Row = dict[str, Any]


def is_harness(data: bytes) -> bool:
    """Whether a blob is a harness code: its digest comes from an agent and may name any blob.

    >>> is_harness(b"def custom_kernel(data): ...")
    False
    """
    return data.startswith(ZIP_MAGIC) and data[NAME_OFFSET:].startswith(FIRST_NAME)


def file_name(version: str, digest: str) -> str:
    """A safe file name for a harness code, whatever version its agent claims.

    >>> file_name('2"/../x', "7de7c33fe0f55c48")
    'warpboard-harness-2-x-7de7c33fe0f5.zip'
    """
    plain = UNSAFE_CHARS.sub("-", version)[:VERSION_MAX].strip("-")
    return f"warpboard-harness-{plain}-{digest[:DIGEST_SHOWN]}.zip"


def downloads_router(sources: ReadSources) -> APIRouter:
    """The routes of a run's files and of harness codes."""
    router, slots = APIRouter(route_class=DocumentedRoute), asyncio.Semaphore(DOWNLOADS_MAX)

    @router.get("/v1/submissions/{number}/files/{name}")
    async def file(who: CurrentReader, name: str, number: NumberInPath) -> Response:
        """A file of an own submission's newest run; GET /v1/submissions/{number} lists them."""
        await sources.wait_until_folded(number)
        row = await sources.view(who).own(number)
        file_row = next((item for item in row["files"] if item["name"] == name), None)
        if file_row is None:
            known = ", ".join(item["name"] for item in row["files"]) or "none"
            raise Refused("not_found", f"no file {name!r}; available: {known}", "name")
        download = DownloadResponse(sources.blobs, file_row["digest"], slots)
        # A submission wrote it: browsers must save it and never render it as ours.
        download.sent |= {
            "Content-Type": file_row["media"] if MEDIA.match(file_row["media"]) else BYTES,
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        }
        return download

    _add_harness_routes(router, sources)
    return router


def _add_harness_routes(router: APIRouter, sources: ReadSources) -> None:
    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @router.get("/v1/harnesses")
    async def list_harnesses(limit: Limit = 50) -> Harnesses:
        """The harness codes of registered agents, newest registration first."""
        alive = frozenset(sources.live.agents)
        rows = await sources.reads.rows("harnesses", digest=None, limit=limit)
        items = [_make_harness(row, alive) for row in rows]
        return Harnesses(items=convert(items, list[Harness]), as_of=sources.progress.seq)

    @router.get("/v1/harnesses/{digest}")
    async def download_harness(digest: str) -> Response:
        """The files of a harness code as a zip; its SHA-256 is the digest in the path."""
        rows = await sources.reads.rows("harnesses", digest=digest, limit=1)
        if not rows:
            raise _unknown_harness(digest)
        download = DownloadResponse(sources.blobs, digest, slots)
        download.is_harness_code = True
        name = file_name(rows[0]["version"], digest)
        disposition = f'attachment; filename="{name}"'
        download.sent |= {"Content-Type": ZIP, "Content-Disposition": disposition}
        return download


def _unknown_harness(digest: str) -> Refused:
    return Refused("not_found", f"there is no harness code {digest[:64]!r} here", "digest")


def _make_harness(row: Row, alive: frozenset[str]) -> Row:
    agents = [agent | {"is_alive": agent["id"] in alive} for agent in row["agents"]]
    name = file_name(row["version"], row["digest"])
    return row | {"agents": agents, "name": name, "url": f"/v1/harnesses/{row['digest']}"}
