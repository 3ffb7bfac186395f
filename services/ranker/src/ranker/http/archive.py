"""The search of the archive: kernels by words, by operation, and by similarity to a source."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import convert
from pydantic import ConfigDict, Field

from ranker.domain.kernel_text import OPERATIONS, KernelText, read_kernel, read_words
from ranker.domain.retrieval import (
    Kernel,
    Match,
    correct_words,
    fold_duplicates,
    rank,
    rank_problems,
)
from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.responses import (
    NUMBER_MAX,
    Cursor,
    PageParams,
    decode_cursor,
    encode_cursor,
    json_response,
)
from ranker.retrieval.index import TextIndex
from shared.api import archive as models
from shared.clock import now
from shared.errors import Refused, did_you_mean
from shared.http import DocumentedRoute, TypedResponse
from shared.problems.submission_file import SUFFIXES, TOOLCHAINS, language_of

# So many kernels are compared with a query, and so many lines can be paged through.
KERNELS_MAX = 400
PAGE_MAX = 100
TEXT_CHARS_MAX = 500
NAME_CHARS_MAX = 100
SOURCE_CHARS_MAX = 64 * 1024
# The words of a query that Postgres compares, and the problems nearest to it that it prefers.
WORDS_MAX, NEAREST_MAX = 64, 8

Row = dict[str, Any]
NameFilter = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)] | None


class ArchiveQuery(PageParams):
    """What to search: words, filters, and the submission whose source the kernels resemble."""

    q: Annotated[str, Field(max_length=TEXT_CHARS_MAX)] | None = None
    like: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = None
    problem: NameFilter = None
    operation: NameFilter = None
    gpu: NameFilter = None
    language: NameFilter = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 20


class ArchiveSourceQuery(ArchiveQuery):
    """The same in a body, with a source that the kernels resemble."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Annotated[str, Field(min_length=1, max_length=SOURCE_CHARS_MAX)] | None = None


class ArchiveCursor(Cursor, frozen=True, kw_only=True, tag="archive"):
    """How many lines the pages before had."""

    offset: int


@dataclass(frozen=True)
class _SearchResult:
    """The lines of a search, with the rows of their kernels."""

    matches: Sequence[Match]
    rows: dict[int, Row]
    titles: dict[str, str]


def archive_router(sources: ReadSources) -> APIRouter:
    """The routes of the archive's search."""
    router = APIRouter(route_class=DocumentedRoute)
    search = ArchiveSearcher(sources)

    @router.get("/v1/archive/search")
    async def search_archive(
        request: Request, reader: CurrentReader, query: Annotated[ArchiveQuery, Query()]
    ) -> TypedResponse[models.ArchiveSearch]:
        """Correct ranked kernels whose sources the reader may read, the best match first.

        `q` has words, `like` the number of a submission; without both, the kernels with the best
        speed-up come first. `problem`, `operation`, `gpu` and `language` filter.
        """
        return json_response(request, await search.page(sources.view(reader), query, None))

    @router.post("/internal/archive/search")
    async def search_by_source(
        request: Request, reader: CurrentReader, query: ArchiveSourceQuery
    ) -> TypedResponse[models.ArchiveSearch]:
        """The same for a source in the body."""
        return json_response(request, await search.page(sources.view(reader), query, query.source))

    return router


class ArchiveSearcher:
    """Searches as one reader may see it."""

    def __init__(self, sources: ReadSources) -> None:
        self._sources = sources

    def index(self) -> TextIndex:
        """The index. Raises Refused `not_supported` if there is none."""
        if self._sources.index is None:
            raise Refused("not_supported", "not supported: this ranker has no search")
        return self._sources.index

    async def page(
        self, view: ReaderView, query: ArchiveQuery, source: str | None
    ) -> models.ArchiveSearch:
        """One page of a search. Raises Refused or Failed."""
        as_of, offset = self._sources.progress.seq, 0
        if query.cursor is not None:
            cursor = decode_cursor(query.cursor, ArchiveCursor)
            as_of, offset = cursor.as_of, cursor.offset
        is_complete = await self.index().catch_up()
        text = await self._read_query(view, query, source)
        result = await self._search(view, query, text)
        end = offset + query.limit
        items = [_describe(match, result, text) for match in result.matches[offset:end]]
        next_cursor = None
        if len(result.matches) > end:
            following = ArchiveCursor(made_at=time.time(), as_of=as_of, offset=end)
            next_cursor = encode_cursor(following)
        return models.ArchiveSearch(
            items=items, next_cursor=next_cursor, is_complete=is_complete, as_of=as_of
        )

    async def _read_query(
        self, view: ReaderView, query: ArchiveQuery, source: str | None
    ) -> KernelText | None:
        """What the query is about; None without words and source."""
        texts = []
        if query.q and query.q.strip():
            texts.append(read_words(query.q))
        if source is not None:
            texts.append(read_kernel(source))
        if query.like is not None:
            texts.append(await self._read_submission(view, query.like))
        if not texts:
            return None
        terms: dict[str, int] = {}
        for text in texts:
            for word, count in text.terms.items():
                terms[word] = terms.get(word, 0) + count
        operations = frozenset[str]().union(*(text.operations for text in texts))
        return KernelText(terms, operations, texts[-1].signature)

    async def _read_submission(self, view: ReaderView, number: int) -> KernelText:
        await self._sources.wait_until_folded(number)
        submission = await view.submission(number)
        if reason := view.source_hidden(submission, now()):
            raise Refused("no_access", f"you cannot see the source of {number}: {reason}", "like")
        digest = submission["source_digest"]
        if rows := await self._sources.reads.rows("source_text", digest=digest):
            return _text(rows[0])
        return await self.index().read_source(digest)

    async def _search(
        self, view: ReaderView, query: ArchiveQuery, text: KernelText | None
    ) -> _SearchResult:
        problem = None if query.problem is None else query.problem.lower()
        rows = await view.rows("problem_texts", problem=problem)
        problems = {row["slug"]: _text(row) for row in rows}
        if problem is not None and problem not in problems:
            raise Refused("unknown_problem", f"there is no problem {query.problem!r}", "problem")
        if text is not None and query.q:
            text = correct_words(text, [known.terms for known in problems.values()])
        kernels = await self._read_kernels(view, query, text, problems)
        by_number = {row["number"]: row for row in kernels}
        candidates = [
            Kernel(row["number"], row["problem"], row["gpu"], _text(row), _speed(row))
            for row in kernels
        ]
        if text is None:
            matches = [Match(kernel, 0.0) for kernel in candidates]
            matches.sort(key=lambda match: _by_speedup(by_number[match.kernel.number]))
        else:
            matches = rank(text, candidates, problems)
        titles = {row["slug"]: row["title"] for row in rows}
        return _SearchResult(fold_duplicates(matches), by_number, titles)

    async def _read_kernels(
        self,
        view: ReaderView,
        query: ArchiveQuery,
        text: KernelText | None,
        problems: dict[str, KernelText],
    ) -> list[Row]:
        """The kernels to rank, only those whose source the reader may read."""
        at = now()
        suffix, toolchain = _parse_language(query.language)
        filters: dict[str, object] = {
            "problem": query.problem and query.problem.lower(),
            "problems": _of_operation(query.operation, problems),
            "gpu": query.gpu,
            "suffix": suffix,
            "toolchain": toolchain,
        }
        nearest, words = [], []
        if text is not None:
            scores = rank_problems(text, problems)
            nearest = sorted(scores, key=lambda slug: -scores[slug])[:NEAREST_MAX]
            words = sorted(text.terms, key=lambda word: -text.terms[word])[:WORDS_MAX]
        rows = await view.rows(
            "search_kernels",
            **filters,
            at=at,
            words=" | ".join(f"'{word}'" for word in words if word.isalnum()),
            bands=text.bands if text else [],
            nearest=nearest,
            limit=KERNELS_MAX,
        )
        return [row for row in rows if view.sees(row) and view.source_hidden(row, at) is None]


def _parse_language(language: str | None) -> tuple[str | None, str | None]:
    """The suffix of the files of a language, or else the toolchain of that name.

    Raises Refused `invalid_request` for what is neither.
    """
    if language is None:
        return None, None
    name = language.lower()
    if name in SUFFIXES:
        return SUFFIXES[name], None
    if name in TOOLCHAINS:
        return None, name
    known = (*SUFFIXES, *TOOLCHAINS)
    reason = f"there is no language {language!r}{did_you_mean(name, known)}: {', '.join(known)}"
    raise Refused("invalid_request", reason, "language")


def _of_operation(operation: str | None, problems: dict[str, KernelText]) -> list[str] | None:
    """The problems that compute an operation, or whose texts have it as a word."""
    if operation is None:
        return None
    name = operation.lower().replace("-", " ")
    words = read_words(name)
    operations = words.operations | ({name} & set(OPERATIONS))
    return sorted(
        slug
        for slug, text in problems.items()
        if (operations & text.operations)
        or (words.terms and words.terms.keys() <= text.terms.keys())
        or slug == operation.lower()
    )


def _text(row: Row) -> KernelText:
    signature = tuple(row.get("signature") or ())
    return KernelText(row["terms"], frozenset(row["operations"]), signature)


def _speed(row: Row) -> float:
    """How fast a kernel is, from 0 to 1 for the fastest of its leaderboard."""
    best_us, score_us = row["best_us"], row["score_us"]
    return min(best_us / score_us, 1.0) if best_us and score_us else 0.0


def _speedup(row: Row) -> tuple[float | None, str]:
    if not row["score_us"]:
        return None, ""
    if row["yardstick_us"]:
        return row["yardstick_us"] / row["score_us"], "yardstick"
    if row["baseline_us"]:
        return row["baseline_us"] / row["score_us"], str(row["baseline_name"])
    return None, ""


def _by_speedup(row: Row) -> tuple[float, float, int]:
    speedup, _ = _speedup(row)
    return (-(speedup or 0.0), -_speed(row), row["number"])


def _describe(
    match: Match, result: _SearchResult, text: KernelText | None
) -> models.ArchivedKernel:
    row = result.rows[match.kernel.number]
    speedup, over = _speedup(row)
    computed = {
        "title": result.titles.get(row["problem"], row["problem"]),
        "language": language_of(row["file_name"]),
        "operations": sorted(match.kernel.text.operations),
        "speedup": speedup,
        "speedup_over": over,
        "similarity": match.code if text is not None and text.signature else None,
        "reason": match.reason,
        "copies": sorted(match.copies),
    }
    return convert(row | computed, models.ArchivedKernel)
