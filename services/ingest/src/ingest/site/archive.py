"""The page of the archive: releases, the search, and the best kernels of each operation."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ingest.identity.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.archive import ArchivedKernel, ArchiveSearch
from shared.api.releases import ReleaseList
from shared.errors import Failed, Refused

KERNELS_MAX, BEST_MAX, BEST_OF_OPERATION_MAX, RELEASES_MAX = 20, 100, 3, 5
TEXT_CHARS_MAX, NAME_CHARS_MAX, CURSOR_CHARS_MAX = 500, 100, 256
FilterText = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
LOAD = (
    ("pandas", "pandas", 'pandas.read_parquet("kernels/data/verdicts")'),
    ("polars", "polars", 'polars.read_parquet("kernels/data/verdicts/**/*.parquet")'),
    ("DuckDB", "duckdb", "duckdb.sql(\"from 'kernels/data/verdicts/**/*.parquet'\").df()"),
)


class ArchivePageQuery(BaseModel):
    """The form of the search; an empty field filters nothing."""

    model_config = ConfigDict(frozen=True)

    q: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] = ""
    like: Annotated[str, Field(pattern=r"^([1-9][0-9]{0,14})?$")] = ""
    operation: FilterText = ""
    gpu: FilterText = ""
    language: FilterText = ""
    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] = ""


class BestKernels(NamedTuple):
    """The kernels with the best speed-up that compute an operation, "" for none that is known."""

    operation: str
    kernels: list[ArchivedKernel]


def list_best(kernels: Sequence[ArchivedKernel]) -> list[BestKernels]:
    """Return the first kernel of each leaderboard, a few for each operation."""
    best: dict[str, dict[tuple[str, str], ArchivedKernel]] = {}
    for kernel in kernels:
        for operation in kernel.operations or [""]:
            boards = best.setdefault(operation, {})
            if len(boards) < BEST_OF_OPERATION_MAX:
                boards.setdefault((kernel.problem, kernel.gpu), kernel)
    # Kernels of no known operation are last.
    names = sorted(best, key=lambda name: (not name, name))
    return [BestKernels(name, list(best[name].values())) for name in names]


async def read_search(
    reads: PageReads, query: dict[str, str | None]
) -> tuple[ArchiveSearch | None, str]:
    """Return the kernels of a search, or None and why there are none."""
    try:
        limit = KERNELS_MAX if any(query.values()) else BEST_MAX
        return await reads.read(
            api_path("archive", "search"), ArchiveSearch, **query, limit=limit
        ), ""
    except Refused as refused:
        return None, refused.reason
    except Failed:
        return None, "the search is unavailable for a moment: try again"


def next_query(form: ArchivePageQuery, search: ArchiveSearch | None) -> str:
    """Return the query of the next page; "" if there is none."""
    if search is None or search.next_cursor is None:
        return ""
    return urlencode(form.model_dump(exclude_defaults=True) | {"cursor": search.next_cursor})


def add_archive_page(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the page."""

    @router.get("/archive")
    async def archive(request: Request, form: Annotated[ArchivePageQuery, Query()]) -> Response:
        """Releases of the archive, a search, and the best kernels of each operation."""
        visitor = await find_visitor(request, web, ranker)
        query = {name: text.strip() or None for name, text in form.model_dump().items()}
        path = api_path("archive", "releases")
        (search, refusal), releases = await read_in_time(
            asyncio.gather(
                read_search(visitor.reads, query),
                read_if_possible(visitor.reads.read(path, ReleaseList)),
            )
        )
        is_search = any(query.values())
        values: dict[str, Any] = {
            "filters": form,
            "next_query": next_query(form, search),
            "is_search": is_search,
            "search": search,
            "refusal": refusal,
            "best": [] if is_search or search is None else list_best(search.items),
            "releases": releases.items[:RELEASES_MAX] if releases else [],
            "load": LOAD,
        }
        return web.public_page(request, "archive.html", visitor.session, **values)
