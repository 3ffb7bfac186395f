"""Problems: lists, rules as text, the author's check, and files, also those to start from."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import convert
from pydantic import Field

from harness.metrics import METRIC_TEXTS, read_metrics
from harness.ranking_rules import describe_ranking
from ranker.http.access import CurrentReader, ReaderView, ReadSources, policy_text
from ranker.http.responses import (
    LIMIT_MAX,
    Cursor,
    PageParams,
    ProblemVersion,
    QueryParams,
    Version,
    decode_cursor,
    encode_cursor,
    json_response,
)
from shared.api import problems as models
from shared.blobs import BlobNotFound, BlobStore
from shared.clock import now
from shared.errors import Failed, Refused, did_you_mean
from shared.http import DocumentedRoute, TypedResponse
from shared.problems import evaluation, templates
from shared.problems.report import read_report
from shared.problems.task_yml import case_name

MANIFESTS_MAX = 200
STATEMENT = "statement.md"
STATES = "^(active|ended|archived|all)$"
SEARCH_CHARS_MAX = 100
GPUS_MAX = 32
# Prefixes of files that authors keep hidden from participants.
HIDDEN_PREFIXES = ("hidden", "solution")
SEED = "seed"
TIES_TEXT = (
    "scores whose difference is within machine noise or what a cheat could hide share a rank; "
    "an equal source of another participant has the rank of its original and is placed behind it; "
    "within a rank entries are ordered by score, "
    "and a participant's runs of the same source are pooled"
)
TOLERANCES_TEXT = "as reference.py checks the output; exact where it has no tolerances"
PUBLISHED_BEFORE_CHECKS = "it was published before there were checks"

Row = dict[str, Any]


class ProblemsQuery(PageParams):
    """Which problems to list; default: all that are not archived.

    `search` is a part of the name, of the title or of a GPU type; `contest` is a whole name.
    """

    state: Annotated[str, Field(pattern=STATES)] | None = None
    search: Annotated[str, Field(max_length=SEARCH_CHARS_MAX)] | None = None
    contest: str | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT_MAX


class StartQuery(QueryParams):
    """For which GPU types and version."""

    gpu: Annotated[list[str], Field(default_factory=list, max_length=GPUS_MAX)]
    version: ProblemVersion = None


class EvaluationQuery(QueryParams):
    """For which problem and version; without a problem, with one case of defaults."""

    problem: str | None = None
    version: ProblemVersion = None


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
            self._known[digest] = msgspec.json.decode(await self.text(digest))
            if len(self._known) > MANIFESTS_MAX:
                self._known.popitem(last=False)
        return self._known[digest]

    async def load_tags(self, row: Row) -> list[str] | None:
        """The tags of a version; None if it has none, or if its manifest cannot be read."""
        try:
            tags: list[str] | None = (await self.load(row["manifest"])).get("tags")
        except Failed:
            return None
        return tags

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
    ) -> TypedResponse[models.Problems]:
        """The newest version of each problem, sorted by name."""
        (checkpoint,) = await sources.reads.rows("checkpoint")
        seq, after, limit = checkpoint["seq"], None, query.limit
        if query.cursor is not None:
            cursor = decode_cursor(query.cursor, ProblemCursor)
            seq, after = cursor.as_of, cursor.slug
        filters = {"slug": None, "version": None, "state": query.state, "after": after}
        filters |= {"search": query.search, "contest": query.contest}
        rows = await sources.view(reader).rows("problems", **filters, at=now(), limit=limit + 1)
        tags = await asyncio.gather(*(manifests.load_tags(row) for row in rows[:limit]))
        page = [
            _add_state(row, now()) | {"tags": row_tags}
            for row, row_tags in zip(rows, tags, strict=False)
        ]
        next_cursor = None
        if len(rows) > limit:
            last = ProblemCursor(made_at=time.time(), as_of=seq, slug=page[-1]["slug"])
            next_cursor = encode_cursor(last)
        items = convert(page, list[models.Problem])
        body = models.Problems(items=items, next_cursor=next_cursor, as_of=seq)
        return json_response(request, body, seq)

    @router.get("/v1/problems/{slug}")
    async def read_problem(
        request: Request, reader: CurrentReader, slug: str, version: Version = None
    ) -> TypedResponse[models.FullProblem]:
        """A problem with its rules, in its newest or another version."""
        view = sources.view(reader)
        row = await problem_row(view, slug, version)
        manifest = await manifests.load(row["manifest"])
        statement = manifest["files"].get(STATEMENT)
        text = (await manifests.text(statement)).decode() if statement else ""
        check = await describe_check(row, manifests.text, is_known=view.authors(row["slug"]))
        problem = row | describe_rules(row, manifest) | {"statement": text, "check": check}
        return json_response(request, convert(problem, models.FullProblem))

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
        manifest = manifest | {"templates": _visible_templates(manifest)}
        start = templates.find_starter_template(manifest, language)
        gpus = _match_gpus(row, query.gpu)
        names = templates.template_sources(manifest, start)
        files = {name: await manifests.text(manifest["files"][name]) for name in names}
        data = await asyncio.to_thread(render_start, row, manifest, start, files, gpus)
        return _text_response(request, data, f"{row['slug']}{start.suffix}")

    @router.get("/v1/evaluation/{name}")
    async def evaluation_file(
        request: Request,
        reader: CurrentReader,
        name: str,
        query: Annotated[EvaluationQuery, Query()],
    ) -> Response:
        """A program that shows how submissions are evaluated, to read and to run elsewhere.

        `eval.py` is for problems in Python and `eval.cu` for those in C++ and CUDA; `utils.py` and
        `utils.h` are what they use. With `problem`, a program has the cases of that problem.
        """
        if query.problem is None:
            return _text_response(request, evaluation.render_evaluation(name), name)
        row = await problem_row(sources.view(reader), query.problem, query.version)
        manifest = await manifests.load(row["manifest"])
        names = evaluation.evaluation_sources(manifest)
        files = {name: await manifests.text(manifest["files"][name]) for name in names}
        return _text_response(request, evaluation.render_evaluation(name, manifest, files), name)


def _text_response(request: Request, data: bytes, name: str) -> Response:
    """Return a text file to save under a name; nothing if the client has it already."""
    etag = f'"{hashlib.sha256(data).hexdigest()}"'
    headers = {"ETag": etag, "X-Content-Type-Options": "nosniff"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(data, 200, headers, "text/plain; charset=utf-8")


async def problem_row(view: ReaderView, slug: str, version: int | None = None) -> Row:
    """A problem that the reader can see, ignoring case. Raises Refused."""
    filters = {"state": None, "after": None, "search": None, "contest": None, "at": now()}
    rows = await view.rows("problems", slug=slug.lower(), version=version, **filters, limit=1)
    if not rows:
        suffix = f" in version {version}" if version else ""
        known = await view.rows("problems", slug=None, version=None, **filters, limit=LIMIT_MAX)
        suffix += did_you_mean(slug, [row["slug"] for row in known if row["slug"] != slug])
        raise Refused("unknown_problem", f"there is no problem {slug!r}{suffix}", "problem")
    return _add_state(rows[0], now())


def _add_state(row: Row, at: datetime) -> Row:
    over_at = row["deadline_at"]
    is_over = over_at is not None and over_at <= at
    state = "archived" if row["archived_at"] else "ended" if is_over else "active"
    return row | {"state": state, "is_over": is_over}


def _match_gpus(row: Row, gpus: Sequence[str]) -> list[str]:
    """GPU types as the leaderboard writes them. Raises Refused `unknown_gpu`."""
    known = {gpu.lower(): gpu for gpu in row["gpus"]}
    for gpu in gpus:
        if gpu.lower() not in known:
            reason = f"{row['slug']} has no GPU type {gpu!r}: {', '.join(row['gpus'])}"
            raise Refused("unknown_gpu", reason, "gpu")
    return [known[gpu.lower()] for gpu in gpus]


def render_start(
    row: Row,
    manifest: Row,
    start: templates.StarterTemplate,
    files: Mapping[str, bytes],
    gpus: Sequence[str],
) -> bytes:
    """Render the file to start from."""
    head = templates.TemplateHeader(
        row["slug"], row["title"], row["gpus"], row["deadline_at"], gpus
    )
    body = templates.render_template(manifest, start, files)
    return templates.add_template_header(head, start.suffix, body).encode()


def describe_rules(row: Row, manifest: Row) -> Row:
    """What participants must know; never a seed or a hidden file."""
    base_url = f"/v1/problems/{quote(row['slug'])}"
    visible_templates = _visible_templates(manifest)
    starts = templates.starter_templates(manifest | {"templates": visible_templates})
    return {name: manifest.get(name) for name in ("authors", "difficulty", "tags", "lang")} | {
        # How the problem's own code is called, for those who run it elsewhere.
        "form": _find_form(manifest),
        "main": manifest.get("main", ""),
        "is_multi_gpu": manifest.get("multi_gpu", False),
        "native": manifest.get("native", {}),
        "answers": manifest.get("answers", ""),
        "memory_mib": manifest.get("memory_mib", 0),
        "description": manifest["description"],
        "templates": visible_templates,
        "submission": manifest["submission"],
        "files": [
            {"name": name, "url": f"{base_url}/files/{quote(name)}"}
            for name in visible_files(manifest)
        ],
        # The most likely language first.
        "starts": [
            {
                "language": start.language,
                "name": f"kernel{start.suffix}",
                "url": f"{base_url}/templates/{quote(start.language)}",
                "is_generated": not start.file,
            }
            for start in starts
        ],
        "evaluation": [
            {
                "name": name,
                "url": f"/v1/evaluation/{name}?problem={quote(row['slug'])}"
                f"&version={row['problem_version']}",
            }
            for name in evaluation.evaluation_files(manifest)
        ],
        "rules": {
            "formula": f"{_describe_score(row, manifest)}, in seconds; the lowest is first",
            "cases": {
                key: [_describe_case(case) for case in manifest[key]]
                for key in ("tests", "benchmarks")
            }
            | {"hidden": _describe_hidden(manifest)},
            "tolerances": TOLERANCES_TEXT,
            "budgets_s": row["budgets_s"],
            "deadline_at": row["deadline_at"],
            "ties": TIES_TEXT,
            "source_policy": policy_text(row["source_visible"], row["deadline_at"]),
            "shortcuts": manifest.get("shortcuts", {}),
            "requires": manifest.get("requires", {}),
            "licence": manifest.get("licence", {}),
            "consent": manifest.get("consent", ""),
            # The formulas of the minimum work, without their values.
            "roofline": {
                key: value for key, value in manifest.get("roofline", {}).items() if key != "cases"
            },
        },
    }


def _find_form(manifest: Row) -> str:
    if manifest.get("lang") == "cu":
        return "native"
    if manifest.get("main"):
        return "program"
    return str(manifest.get("form") or "input_output") if "calls" in manifest else "task"


def _describe_score(row: Row, manifest: Row) -> str:
    weights = [case.get("weight", 1.0) for case in manifest["benchmarks"]]
    text = describe_ranking(row["ranking_by"], weights)
    if family := manifest.get("hidden", {}).get("benchmarks"):
        text += f"; {family['count']} hidden cases count, too, each with the weight "
        text += f"{family.get('weight', 1.0):g}"
    return "; ".join([text, *_describe_metrics(manifest)])


def _describe_metrics(manifest: Row) -> list[str]:
    return [
        f"shown with {metric.name}, {METRIC_TEXTS[metric.name]}"
        + (f", ranked from {metric.least:g}" if metric.least is not None else "")
        + (f", ranked up to {metric.most:g}" if metric.most is not None else "")
        for metric in read_metrics(manifest.get("metrics", []))
    ]


def _describe_hidden(manifest: Row) -> list[Row]:
    return [
        {
            "group": group,
            "count": family["count"],
            "weight": family.get("weight", 1.0),
            "args": {key: value for key, value in family["args"].items() if key != SEED},
        }
        for group, family in sorted(manifest.get("hidden", {}).items(), reverse=True)
    ]


def _describe_case(case: Row) -> Row:
    """A case without its seed, which a ranked run draws again."""
    args = case["args"]
    plain = {key: value for key, value in args.items() if key != SEED}
    weight = {"weight": case["weight"]} if "weight" in case else {}
    return {"name": case_name(plain), "args": plain, "is_seeded": SEED in args} | weight


def visible_files(manifest: Row) -> list[str]:
    """The files that participants may see."""
    return sorted(
        name for name in manifest["files"] if not name.lower().startswith(HIDDEN_PREFIXES)
    )


def _visible_templates(manifest: Row) -> dict[str, str]:
    visible = visible_files(manifest)
    return {key: name for key, name in manifest["templates"].items() if name in visible}


async def describe_check(
    row: Row, text: Callable[[str], Awaitable[bytes]], *, is_known: bool = False
) -> models.Check:
    """The check of a version; `text` loads the bytes of a digest.

    The results of the author's solutions are only for the author and staff (`is_known`), because
    the names of wrong solutions reveal what is checked. Raises Failed.
    """
    report, reason = None, row["unchecked"] or PUBLISHED_BEFORE_CHECKS
    if row["report"]:
        try:
            report, reason = read_report(await text(row["report"])), ""
        except Refused as refused:
            reason = refused.reason
    solutions = report.solutions if report else ()
    return models.Check(
        state="clean" if report else "unchecked",
        reason=reason,
        harness=report.harness if report else None,
        device=report.device if report else None,
        made_at=report.made_at if report else None,
        solutions=len(solutions),
        solutions_found=[
            convert(solution, models.SolutionFound, from_attributes=True)
            for solution in (solutions if is_known else ())
        ],
        warnings=[
            f"{finding.where}: {finding.text}" for finding in (report.findings if report else ())
        ],
    )
