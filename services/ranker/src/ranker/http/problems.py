"""Problems: lists, details with rules as text, and the files that participants may see."""

import asyncio
import time
from collections import OrderedDict
from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import convert
from pydantic import Field

from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.problem_details import (
    StartQuery,
    describe_check,
    describe_rules,
    make_text_download,
    match_gpus,
    render_start,
    visible_files,
    visible_templates,
)
from ranker.http.responses import (
    LIMIT_MAX,
    Cursor,
    PageParams,
    Version,
    decode_cursor,
    encode_cursor,
    json_response,
)
from shared.api.problems import FullProblem, Problem, Problems
from shared.blobs import BlobNotFound, BlobStore
from shared.clock import now
from shared.errors import Failed, Refused
from shared.problems import templates
from shared.response_types import DocumentedRoute, TypedResponse

MANIFESTS_MAX = 200
STATEMENT = "statement.md"
STATES = "^(active|ended|archived|all)$"

Row = dict[str, Any]


class ProblemsQuery(PageParams):
    """Which problems to list; default: all that are not archived."""

    state: Annotated[str, Field(pattern=STATES)] | None = None
    contest: str | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT_MAX


class ProblemCursor(Cursor, frozen=True, kw_only=True, tag="problem"):
    """The last problem of the page before."""

    slug: str


class ManifestCache:
    """The manifests of problem versions, each read once."""

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._known: OrderedDict[str, Row] = OrderedDict()

    async def load(self, digest: str) -> Row:
        """The manifest of a version. Raises Failed."""
        if digest not in self._known:
            data = await self.text(digest)
            self._known[digest] = msgspec.json.decode(data)
            if len(self._known) > MANIFESTS_MAX:
                self._known.popitem(last=False)
        return self._known[digest]

    async def text(self, digest: str) -> bytes:
        """The bytes of a problem's file. Raises Failed."""
        try:
            return await self.blobs.get(digest)
        except BlobNotFound as missing:
            raise Failed(f"a file of the problem is missing: {missing}") from missing


def problems_router(sources: ReadSources) -> APIRouter:
    """The routes of problems and of their files."""
    router, manifests = APIRouter(route_class=DocumentedRoute), ManifestCache(sources.blobs)

    @router.get("/v1/problems")
    async def list_problems(
        request: Request, reader: CurrentReader, query: Annotated[ProblemsQuery, Query()]
    ) -> TypedResponse[Problems]:
        """The newest version of each problem, sorted by name."""
        (checkpoint,) = await sources.reads.rows("checkpoint")
        seq, after = checkpoint["seq"], None
        if query.cursor is not None:
            cursor = decode_cursor(query.cursor, ProblemCursor)
            seq, after = cursor.as_of, cursor.slug
        filters = {"slug": None, "version": None, "state": query.state, "after": after}
        limit = query.limit
        rows = await sources.view(reader).rows("problems", **filters, at=now(), limit=limit + 1)
        # Contests have no events yet: no problem belongs to one.
        page, next_cursor = [], None
        if query.contest is None:
            page = [_add_state(row, now()) for row in rows[:limit]]
            if len(rows) > limit:
                last = ProblemCursor(made_at=time.time(), as_of=seq, slug=page[-1]["slug"])
                next_cursor = encode_cursor(last)
        items = convert(page, list[Problem])
        body = Problems(items=items, next_cursor=next_cursor, as_of=seq)
        return json_response(request, body, seq)

    @router.get("/v1/problems/{slug}")
    async def read_problem(
        request: Request, reader: CurrentReader, slug: str, version: Version = None
    ) -> TypedResponse[FullProblem]:
        """A problem with its rules, in its newest or another version."""
        view = sources.view(reader)
        row = await problem_row(view, slug, version)
        manifest = await manifests.load(row["manifest"])
        statement = manifest["files"].get(STATEMENT)
        text = (await manifests.text(statement)).decode() if statement else ""
        check = await describe_check(row, manifests.text, is_known=view.authors(row["slug"]))
        details = {"statement": text, "check": check}
        problem = row | describe_rules(row, manifest) | details
        return json_response(request, convert(problem, FullProblem))

    _add_files(router, sources, manifests)
    return router


def _add_files(router: APIRouter, sources: ReadSources, manifests: ManifestCache) -> None:
    @router.get("/v1/problems/{slug}/files/{name}")
    async def file(
        request: Request, reader: CurrentReader, slug: str, name: str, version: Version = None
    ) -> Response:
        """A file of a problem, such as its reference, statement or templates."""
        row = await problem_row(sources.view(reader), slug, version)
        manifest = await manifests.load(row["manifest"])
        if name not in (names := visible_files(manifest)):
            raise Refused("not_found", f"no file {name!r}; available: {', '.join(names)}", "name")
        digest = manifest["files"][name]
        headers = {"ETag": f'"{digest}"', "X-Content-Type-Options": "nosniff"}
        if f'"{digest}"' in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        media = "text/plain; charset=utf-8"
        return Response(await manifests.text(digest), 200, headers, media)

    @router.get("/v1/problems/{slug}/templates/{language}")
    async def template(
        request: Request,
        reader: CurrentReader,
        slug: str,
        language: str,
        query: Annotated[StartQuery, Query()],
    ) -> Response:
        """The file to start from: the author's template, or one generated from the reference.

        It begins with directives, the title, the deadline and the GPU types.
        """
        row = await problem_row(sources.view(reader), slug, query.version)
        manifest = await manifests.load(row["manifest"])
        manifest = manifest | {"templates": visible_templates(manifest)}
        start, gpus = (
            templates.find_starter_template(manifest, language),
            match_gpus(row, query.gpu),
        )
        digests = {
            name: manifest["files"][name] for name in templates.template_sources(manifest, start)
        }
        files = {name: await manifests.text(digest) for name, digest in digests.items()}
        data = await asyncio.to_thread(render_start, row, manifest, start, files, gpus)
        name = f"{row['slug']}{start.suffix}"
        return make_text_download(data, name, request.headers.get("if-none-match", ""))


async def problem_row(view: ReaderView, slug: str, version: int | None = None) -> Row:
    """A problem that the reader can see, ignoring case. Raises Refused."""
    filters = {"slug": slug.lower(), "version": version, "state": None, "after": None}
    rows = await view.rows("problems", **filters, at=now(), limit=1)
    if not rows:
        suffix = f" in version {version}" if version else ""
        raise Refused("unknown_problem", f"there is no problem {slug!r}{suffix}", "problem")
    return _add_state(rows[0], now())


def _add_state(row: Row, at: datetime) -> Row:
    over_at = row["deadline_at"]
    is_over = over_at is not None and over_at <= at
    state = "archived" if row["archived_at"] else "ended" if is_over else "active"
    return row | {"state": state, "is_over": is_over}
