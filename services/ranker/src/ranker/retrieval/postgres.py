"""The texts that a search compares, in Postgres, in a schema that all read models share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from psycopg_pool import AsyncConnectionPool

from ranker.domain.kernel_text import KernelText
from ranker.domain.near_copies import NearCopy
from ranker.domain.source_screen import Finding
from shared.postgres import borrow_connection, load_statements

PACKAGE = "ranker.retrieval"
SCHEMA = "retrieval"
UNWRITABLE = ("the texts of sources cannot be stored", "the search is unavailable for a moment")


@dataclass(frozen=True)
class TextStore:
    """Stores texts by digest, on the connections of the readers."""

    pool: AsyncConnectionPool

    async def keep_sources(self, texts: Sequence[tuple[str, KernelText]]) -> None:
        """Store the texts of sources. Raises Failed."""
        rows = [
            _row(digest, text)
            | {"signature": text.signature, "bands": text.bands, "words": sorted(text.terms)}
            for digest, text in texts
        ]
        await self._keep("keep_sources", rows)

    async def keep_near_copies(self, copies: Mapping[int, NearCopy | None]) -> None:
        """Store what submissions are nearly copies of, by their numbers. Raises Failed."""
        none: dict[str, object] = {"parent": None, "similarity": None}
        rows = [
            {"number": number, **(copy._asdict() if copy else none)}
            for number, copy in copies.items()
        ]
        await self._keep("keep_near_copies", rows)

    async def keep_labels(
        self, version: int, labels: Sequence[tuple[str, str, list[Finding]]]
    ) -> None:
        """Store what a version of the advisory screen found, by digest and name. Raises Failed."""
        rows: list[dict[str, object]] = [
            {
                "digest": digest,
                "file_name": file_name,
                "version": version,
                "findings": findings,
                "rules": sorted({finding.rule for finding in findings}),
            }
            for digest, file_name, findings in labels
        ]
        await self._keep("keep_labels", rows)

    async def keep_problems(self, texts: Sequence[tuple[str, KernelText]]) -> None:
        """Store the texts of problems, by the digests of their manifests. Raises Failed."""
        await self._keep("keep_problems", [_row(digest, text) for digest, text in texts])

    async def _keep(self, statement: str, rows: Sequence[dict[str, object]]) -> None:
        sql = load_statements(PACKAGE, "texts.sql")[statement].encode()
        values = {"rows": msgspec.json.encode(rows).decode()}
        async with borrow_connection(self.pool, *UNWRITABLE) as connection:
            await connection.execute(sql, values)


def _row(digest: str, text: KernelText) -> dict[str, object]:
    return {"digest": digest, "terms": text.terms, "operations": sorted(text.operations)}
