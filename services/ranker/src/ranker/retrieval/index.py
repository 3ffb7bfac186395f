"""Reads the sources and problems that no search has read yet, and finds near-copies of sources.

It runs when somebody searches or looks at a lineage, beside the projection, and never holds that
up. What a submission is nearly a copy of follows from the log and its blobs alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from ranker.domain.kernel_text import KernelText, read_kernel, read_problem
from ranker.domain.near_copies import CANDIDATES_MAX, NearCopy, NearCopyFinder, SignedSource
from ranker.retrieval.passes import SharedPass
from ranker.retrieval.postgres import TextStore
from ranker.service.decisions import Reads
from shared.blobs import BlobNotFound, BlobStore
from shared.source_files import join_texts, unpack_files

STATEMENT = "statement.md"
REFERENCES = ("reference.py", "reference.cu", "reference.cpp")
# How many texts are stored at once.
BATCH = 100

Row = dict[str, Any]
logger = logging.getLogger(__name__)


class TextIndex:
    """Keeps the texts up to date; all searches at one time share one pass over what is missing."""

    def __init__(self, reads: Reads, blobs: BlobStore, store: TextStore) -> None:
        self._reads, self._blobs, self._store = reads, blobs, store
        self._pass = SharedPass(self._read_missing)

    async def catch_up(self) -> bool:
        """Read what is missing, for two seconds at most; whether nothing is missing now.

        A pass that takes longer goes on by itself. Raises Failed.
        """
        return await self._pass.catch_up()

    async def read_source(self, digest: str) -> KernelText:
        """What a source is about, with all its files; nothing if it is no longer stored."""
        files = unpack_files("", await self._bytes(digest))
        return await asyncio.to_thread(read_kernel, join_texts(files))

    async def _read_missing(self) -> None:
        while rows := await self._reads.rows("problems_unread", limit=BATCH):
            await self._store.keep_problems([await self._read_problem(row) for row in rows])
        finders: dict[str, NearCopyFinder] = {}
        while rows := await self._reads.rows("submissions_unread", limit=BATCH):
            await self._read_sources(rows)
            copies: dict[int, NearCopy | None] = {}
            for row in rows:
                finder = finders.get(row["problem"])
                if finder is None:
                    finder = finders[row["problem"]] = await self._finder_before(row)
                copies[row["number"]] = finder.add(_signed(row))
            await self._store.keep_near_copies(copies)

    async def _read_sources(self, rows: Sequence[Row]) -> None:
        """Read and store the sources of submissions that are new, and add their signatures."""
        new = dict.fromkeys(row["digest"] for row in rows if row["signature"] is None)
        texts = {digest: await self.read_source(digest) for digest in new}
        await self._store.keep_sources(list(texts.items()))
        for row in rows:
            if row["signature"] is None:
                row["signature"] = texts[row["digest"]].signature

    async def _finder_before(self, row: Row) -> NearCopyFinder:
        """What finds near-copies among the submissions to a problem, from one of them on."""
        problem, number = row["problem"], row["number"]
        earlier = await self._reads.rows(
            "sources_before", problem=problem, before=number, limit=CANDIDATES_MAX
        )
        finder = NearCopyFinder()
        for known in reversed(earlier):
            finder.add(_signed(known))
        return finder

    async def _read_problem(self, row: Row) -> tuple[str, KernelText]:
        try:
            manifest: Row = msgspec.json.decode(await self._text(row["digest"]))
        except msgspec.DecodeError:
            manifest = {}
        files = manifest.get("files", {})
        statement, *references = [
            await self._text(files[name]) if name in files else ""
            for name in (STATEMENT, *REFERENCES)
        ]
        words = _title_words(row, manifest)
        return row["digest"], await asyncio.to_thread(
            read_problem, words, statement, "\n".join(references)
        )

    async def _text(self, digest: str) -> str:
        return (await self._bytes(digest)).decode("utf-8", "replace")

    async def _bytes(self, digest: str) -> bytes:
        try:
            return await self._blobs.get(digest)
        except BlobNotFound:
            logger.warning("a search cannot read blob %s: it is no longer stored", digest)
            return b""


def _signed(row: Row) -> SignedSource:
    return SignedSource(
        row["number"], row["account"], row["gpu"], row["pooling_source"], row["signature"]
    )


def _title_words(row: Row, manifest: Row) -> str:
    tags: Sequence[str] = manifest.get("tags") or ()
    description = str(manifest.get("description") or "")
    return " ".join([row["slug"].replace("-", " "), row["title"], description, *tags])
