"""Two submissions beside each other: what changed in the source, and what that did to each case."""

import asyncio
from itertools import islice
from typing import Annotated, Any, cast

from fastapi import FastAPI, Query, Request

from ranker.domain.contrast import Contrast, contrast, of_scores
from ranker.domain.difference import unified
from ranker.http.access import Asker, Seen, safe_case
from ranker.http.answers import NUMBER_MAX, answered
from ranker.http.shapes import boards as shapes
from ranker.http.sources import source_text
from ranker.service import Reads
from shared.answers import Answer
from shared.blobs import Blobs
from shared.clock import now

# A file has up to a million bytes; so long a difference nobody reads.
DIFF_LINES_MAX = 20_000
LINES_MAX = 5_000

Row = dict[str, Any]
Number = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


def comparing(app: FastAPI, reads: Reads, blobs: Blobs) -> None:
    """The comparison of two submissions."""

    @app.get("/v1/compare")
    async def compare(
        request: Request, who: Asker, a: Number, b: Number
    ) -> Answer[shapes.Comparison]:
        """How b differs from a; a ratio under one says that b is the faster."""
        seen = Seen(reads, who)
        one, other = await seen.submission(a), await seen.submission(b)
        is_whole = seen.owns(one) and seen.owns(other)
        cases = [[safe_case(case) for case in row["cases"]] for row in (one, other)]
        body: shapes.Comparison = {
            "a": _side(one),
            "b": _side(other),
            "diff": await _diff(seen, blobs, one, other),
            "score": _shown(of_scores(one, other)),
            "cases": [_shown(found) for found in contrast(*cases)] if is_whole else [],
        }
        return answered(request, body)


def _shown(found: Contrast) -> shapes.Contrast:
    return cast("shapes.Contrast", found._asdict())


def _side(row: Row) -> shapes.Side:
    names = ("number", "problem", "problem_number", "gpu", "mode", "verdict", "score_us")
    return cast("shapes.Side", {name: row[name] for name in names})


async def _diff(seen: Seen, blobs: Blobs, one: Row, other: Row) -> str | None:
    """The difference of the sources, where both are to be seen."""
    at = now()
    if not (seen.sees_source(one, at) and seen.sees_source(other, at)):
        return None
    if one["source_digest"] == other["source_digest"]:
        return ""
    texts = [await source_text(blobs, row["source_digest"]) for row in (one, other)]
    before, after = (text.splitlines() for text in texts)
    if max(len(before), len(after)) > LINES_MAX:
        return None
    names = (f"submission {one['number']}", f"submission {other['number']}")
    # Beside the loop, on which everybody else's reads wait.
    return await asyncio.to_thread(_text, before, after, names)


def _text(before: list[str], after: list[str], names: tuple[str, str]) -> str:
    return "\n".join(islice(unified(before, after, names), DIFF_LINES_MAX))
