"""Labels sources by the advisory screen, and keeps the labels.

It runs when a moderator looks, beside the projection. Labels follow from the sources and the
version of the screen alone, so they are in no event: a new version labels all sources again.
"""

import logging
from collections.abc import Sequence
from typing import Any

from ranker.domain.screen_rules import SCREEN_VERSION
from ranker.domain.source_screen import Finding, by_severity
from ranker.retrieval.passes import SharedPass
from ranker.retrieval.postgres import TextStore
from ranker.retrieval.screen_process import ScreenProcess
from ranker.service.decisions import Reads
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed
from shared.problems.submission_file import language_of
from shared.source_files import HEADER_SUFFIXES, SourceFile, unpack_files

BATCH = 100
PYTHON = "python"
# Files of data beside the entry, which define nothing.
DATA_SUFFIXES = (".json", ".txt")

Row = dict[str, Any]
logger = logging.getLogger(__name__)


class SourceLabels:
    """Keeps the labels up to date, the newest submissions first."""

    def __init__(self, reads: Reads, blobs: BlobStore, store: TextStore) -> None:
        self._reads, self._blobs, self._store = reads, blobs, store
        self._pass = SharedPass(self._label_missing)

    async def catch_up(self) -> bool:
        """Label what is missing, for two seconds at most; whether nothing is missing now.

        A pass that takes longer goes on by itself. Raises Failed.
        """
        return await self._pass.catch_up()

    async def read(self, digest: str, file_name: str) -> list[Finding]:
        """Return the findings in a source, which is screened first if it is new. Raises Failed."""
        values = {"digest": digest, "file_name": file_name, "version": SCREEN_VERSION}
        if rows := await self._reads.rows("source_labels", **values):
            return [Finding(*item) for item in rows[0]["findings"]]
        ((_, _, findings),) = await self._label([{"digest": digest, "file_name": file_name}])
        return findings

    async def read_files(self, digest: str, file_name: str) -> Sequence[SourceFile]:
        """Return the files of a source; none if it is no longer stored, or is damaged."""
        try:
            return unpack_files(file_name, await self._blobs.get(digest))
        except (BlobNotFound, Failed) as error:
            logger.warning("the advisory screen cannot read blob %s: %s", digest, error)
            return ()

    async def _label_missing(self) -> None:
        while rows := await self._reads.rows(
            "sources_unlabelled", version=SCREEN_VERSION, limit=BATCH
        ):
            await self._label(rows)

    async def _label(self, rows: Sequence[Row]) -> list[tuple[str, str, list[Finding]]]:
        labels, process = [], ScreenProcess()
        try:
            for row in rows:
                digest, file_name = row["digest"], row["file_name"]
                files = await self.read_files(digest, file_name)
                findings = [it for file in files for it in await _screen_file(process, file)]
                labels.append((digest, file_name, sorted(findings, key=by_severity)))
        finally:
            await process.close()
        await self._store.keep_labels(SCREEN_VERSION, labels)
        return labels


async def _screen_file(process: ScreenProcess, file: SourceFile) -> list[Finding]:
    if file.name.endswith(DATA_SUFFIXES):
        return []
    is_python = not file.name.endswith(HEADER_SUFFIXES) and language_of(file.name) == PYTHON
    findings = await process.screen(file.data, is_python=is_python)
    return [finding._replace(file=file.name) for finding in findings]
