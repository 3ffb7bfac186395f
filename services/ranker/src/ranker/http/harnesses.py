"""The harness codes that judge here, for everybody: which there are, and each as a file."""

import asyncio
import re
from typing import Any, cast

from fastapi import FastAPI, Response

from ranker.http.answers import Limit
from ranker.http.files import DOWNLOADS_MAX, Download
from ranker.http.shapes import waiting as shapes
from ranker.service import Alive, News, Reads
from shared.blobs import Blobs
from shared.errors import Refused

ZIP = "application/zip"
DIGEST_SHOWN, VERSION_MAX = 12, 20
UNPLAIN = re.compile(r"[^A-Za-z0-9]+")
# How a zip of a harness begins: its first file's head, and after 30 bytes of that the file's name.
HEAD, FIRST = b"PK\x03\x04", b"harness/__init__.py"
FIRST_AT = 30

Row = dict[str, Any]


def is_harness(data: bytes) -> bool:
    """Whether a blob is a harness code: an agent named it, and might have named any other.

    >>> is_harness(b"def custom_kernel(data): ...")
    False
    """
    return data.startswith(HEAD) and data[FIRST_AT:].startswith(FIRST)


def file_name(version: str, digest: str) -> str:
    """What a harness code is called as a file, whatever its agent calls its version.

    >>> file_name('2"/../x', "7de7c33fe0f55c48")
    'warpboard-harness-2-x-7de7c33fe0f5.zip'
    """
    plain = UNPLAIN.sub("-", version)[:VERSION_MAX].strip("-")
    return f"warpboard-harness-{plain}-{digest[:DIGEST_SHOWN]}.zip"


class Zip(Download):
    """The zip of a harness code on its way out."""

    def check(self, data: bytes) -> None:
        """Send no blob that an agent named and that is none. Errors: Refused."""
        if not is_harness(data):
            raise _unknown(self.digest)


def harnesses(app: FastAPI, reads: Reads, blobs: Blobs, news: News, live: Alive) -> None:
    """The reads of harness codes."""
    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @app.get("/v1/harnesses")
    async def every(limit: Limit = 50) -> shapes.Harnesses:
        """The harness codes that agents registered with, that of the newest registration first."""
        alive = live.alive()
        rows = await reads.rows("harnesses", digest=None, limit=limit)
        items = [_shown(row, frozenset(alive)) for row in rows]
        return {"items": cast("list[shapes.Harness]", items), "as_of": news.seq}

    @app.get("/v1/harnesses/{digest}")
    async def one(digest: str) -> Response:
        """The files of a harness code, as a zip whose SHA-256 is its name here."""
        rows = await reads.rows("harnesses", digest=digest, limit=1)
        if not rows:
            raise _unknown(digest)
        download = Zip(blobs, digest, slots)
        name = file_name(rows[0]["version"], digest)
        download.sent = {
            "Content-Type": ZIP,
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
            "ETag": f'"{digest}"',
        }
        return download


def _unknown(digest: str) -> Refused:
    return Refused("not_found", f"there is no harness code {digest[:64]!r} here", "digest")


def _shown(row: Row, alive: frozenset[str]) -> Row:
    agents = [one | {"is_alive": one["id"] in alive} for one in row["agents"]]
    name = file_name(row["version"], row["digest"])
    return row | {"agents": agents, "name": name, "url": f"/v1/harnesses/{row['digest']}"}
