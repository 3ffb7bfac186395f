"""The lineage of a release: what each submission comes from, as declared or as detected.

A row is in a release if both sources are. What is detected follows from the ranked submissions and
their sources alone, released or not, as on the pages of the platform.
"""

import asyncio
import sqlite3
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ranker.domain.kernel_text import read_kernel
from ranker.domain.near_copies import NearCopyFinder, SignedSource
from ranker.releases.index import Index
from shared.private_files import open_private
from shared.pseudonyms import pseudonym
from shared.source_files import join_texts, unpack_files

# Sources are read concurrently.
AT_ONCE = 8
# In the name of the file that keeps them: another number makes all signatures again.
VERSION = 1

Row = dict[str, Any]


class LineageRequest(NamedTuple):
    """A ranked submission, without its signature, and what is known of its source.

    `digest` is that of its source. `is_released` says whether this release has the source, and
    `is_kept` whether it had it before. `declared` is the number of its parent, 0 for none.
    """

    submission: SignedSource
    problem: str
    split: str
    digest: str
    declared: int
    is_released: bool
    is_kept: bool


class Signatures:
    """The signatures of sources by digest, in a SQLite file that later releases use again."""

    def __init__(self, path: Path, read: Callable[[str], Awaitable[bytes | None]]) -> None:
        self._read = read
        if not path.exists():
            open_private(path).close()
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("create table if not exists signature (digest text primary key, value)")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._db.close()

    async def of(self, digests: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the signatures of sources; of one that is no longer stored, an empty one."""
        signatures: dict[str, Sequence[int]] = {}
        new = []
        for digest in digests:
            query = "select value from signature where digest = ?"
            if row := self._db.execute(query, (digest,)).fetchone():
                signatures[digest] = array("I", row[0])
            else:
                new.append(digest)
        for first in range(0, len(new), AT_ONCE):
            some = new[first : first + AT_ONCE]
            sources = await asyncio.gather(*map(self._read, some))
            for digest, source in zip(some, sources, strict=True):
                signatures[digest] = () if source is None else await self._sign(digest, source)
        return signatures

    async def _sign(self, digest: str, source: bytes) -> Sequence[int]:
        text = join_texts(unpack_files("", source))
        signature = (await asyncio.to_thread(read_kernel, text)).signature
        value = array("I", signature).tobytes()
        self._db.execute("insert or replace into signature values (?, ?)", (digest, value))
        return signature


class LineageFold:
    """Finds parents in the order of the log, and returns the rows that a release adds."""

    def __init__(self, index: Index, key: bytes) -> None:
        self._index, self._key = index, key
        self._finders: dict[str, NearCopyFinder] = {}

    def fold(self, request: LineageRequest, signature: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of the next submission."""
        finder = self._finders.get(request.problem)
        if finder is None:
            finder = self._finders[request.problem] = NearCopyFinder()
        copy = finder.add(replace(request.submission, signature=signature))
        if not request.is_released:
            return
        if request.declared:
            is_same = copy is not None and copy.parent == request.declared
            similarity = copy.similarity if copy is not None and is_same else None
            yield from self._row(request, request.declared, similarity, is_detected=False)
        if copy is not None and copy.parent != request.declared:
            yield from self._row(request, copy.parent, copy.similarity, is_detected=True)

    def _row(
        self, request: LineageRequest, parent: int, similarity: float | None, *, is_detected: bool
    ) -> Iterator[Row]:
        """Yield a row if this release has both sources, and the one before lacked one of them."""
        source = self._index.source(parent)
        if source is None or (request.is_kept and source.is_kept):
            return
        submission = request.submission
        yield {
            "submission": submission.number,
            "seq": submission.number,
            "problem": request.problem,
            "participant": pseudonym(self._key, submission.account),
            "parent": parent,
            "parent_participant": pseudonym(self._key, source.account),
            "is_detected": is_detected,
            "similarity": similarity,
        }
