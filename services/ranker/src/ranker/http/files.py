"""What a run left to be downloaded: its log, its samples, its artefacts."""

import asyncio
import re
from urllib.parse import quote

from fastapi import FastAPI, Response
from starlette.types import Receive, Scope, Send

from ranker.http.access import Asker, Seen
from ranker.http.answers import NumberInPath
from ranker.service import Reads
from shared.blobs import Blobs, Missing
from shared.errors import Refused

# Each may hold a whole blob in memory while it is sent.
DOWNLOADS_MAX = 4
# An agent says what a file is, and says nothing else in our answer's head.
MEDIA = re.compile(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}\Z")
BYTES = "application/octet-stream"


class Download(Response):
    """A blob on its way out; at most so many are in memory at once as `slots` has."""

    def __init__(self, blobs: Blobs, digest: str, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.blobs, self.digest, self.slots = blobs, digest, slots
        self.sent: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fetch and send. Errors: Refused if the blob is gone, or may not go out; Failed."""
        async with self.slots:
            try:
                data = await self.blobs.get(self.digest)
            except Missing as missing:
                raise Refused("not_found", f"it is not kept any more: {missing}") from missing
            self.check(data)
            await Response(data, 200, self.sent)(scope, receive, send)

    def check(self, data: bytes) -> None:
        """Whether a blob may go out, by what is in it. Errors: Refused."""


def files(app: FastAPI, reader: Reads, blobs: Blobs) -> None:
    """The downloads."""
    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @app.get("/v1/submissions/{number}/files/{name}")
    async def file(who: Asker, number: NumberInPath, name: str) -> Response:
        """A file of one's own submission's newest run; GET /v1/submissions/{number} lists them."""
        row = await Seen(reader, who).own(number)
        found = next((one for one in row["files"] if one["name"] == name), None)
        if found is None:
            known = ", ".join(one["name"] for one in row["files"]) or "none"
            raise Refused("not_found", f"no file {name!r}: there is {known}", "name")
        download = Download(blobs, found["digest"], slots)
        # A submission wrote it: a browser keeps it as a file and never shows it as ours.
        download.sent = {
            "Content-Type": found["media"] if MEDIA.match(found["media"]) else BYTES,
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "ETag": f'"{found["digest"]}"',
        }
        return download
