"""Problems: lists, each one with its rules as text, and the files that participants may see."""

import asyncio
import time
from collections import OrderedDict
from datetime import datetime
from typing import Annotated, Any, cast
from urllib.parse import quote

import msgspec
from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from ranker.domain.release import policy_text
from ranker.http import cursors, starts
from ranker.http.access import Asker, Seen
from ranker.http.answers import LIMIT_MAX, Paged, Version, answered
from ranker.http.checks import check_of, without_check
from ranker.http.shapes import problems as shapes
from ranker.service import Reads
from shared.answers import Answer
from shared.blobs import Blobs, Missing
from shared.clock import now
from shared.errors import Failed, Refused
from shared.problems import templates
from shared.problems.cases import case_name

MANIFESTS_MAX = 200
# Authors may keep more beside a problem than participants are to know.
SECRET = ("hidden", "solution")
SEED = "seed"
STATEMENT = "statement.md"
STATES = "^(active|ended|archived|all)$"
FORMULA = {
    "last": "the time of the last timed case",
    "mean": "the arithmetic mean of the timed cases' times",
    "geom": "the geometric mean of the timed cases' times",
}
TIES = (
    "scores that differ by less than what the machine or a cheat could make of it share a rank; "
    "within a rank the order is that of the scores, a copy stands behind what it copies, "
    "and a participant's runs of the same source are pooled"
)
CHECKS = "as reference.py checks the output, exactly where it says nothing of tolerances"

Row = dict[str, Any]


class ProblemsQuery(Paged):
    """Which problems; without a state all that are not archived."""

    state: Annotated[str, Field(pattern=STATES)] | None = None
    contest: str | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT_MAX


class ProblemCursor(cursors.Cursor, frozen=True, kw_only=True, tag="problem"):
    """The last problem that was listed."""

    slug: str


class Manifests:
    """What problem versions say of themselves, read once each."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self._known: OrderedDict[str, Row] = OrderedDict()

    async def of(self, digest: str) -> Row:
        """A version's manifest. Errors: Failed."""
        if digest not in self._known:
            data = await self.text(digest)
            self._known[digest] = msgspec.json.decode(data)
            if len(self._known) > MANIFESTS_MAX:
                self._known.popitem(last=False)
        return self._known[digest]

    async def text(self, digest: str) -> bytes:
        """The bytes of one of its files. Errors: Failed."""
        try:
            return await self.blobs.get(digest)
        except Missing as missing:
            raise Failed(f"the problem's files are not there: {missing}") from missing


def problems(app: FastAPI, reads: Reads, blobs: Blobs) -> None:
    """The reads of problems."""
    manifests = Manifests(blobs)

    @app.get("/v1/problems")
    async def every(
        request: Request, who: Asker, query: Annotated[ProblemsQuery, Query()]
    ) -> Answer[shapes.Problems]:
        """The newest version of each problem, in the order of their names."""
        (checkpoint,) = await reads.rows("checkpoint")
        seq, after = checkpoint["seq"], None
        if query.cursor is not None:
            read = cursors.read(query.cursor, ProblemCursor)
            seq, after = read.as_of, read.slug
        wanted = {"slug": None, "version": None, "state": query.state, "after": after}
        limit = query.limit
        rows = await Seen(reads, who).rows("problems", **wanted, at=now(), limit=limit + 1)
        # Contests have no events yet: no problem is in one.
        shown = [_listed(row) for row in rows[:limit]] if query.contest is None else []
        is_more = len(rows) > limit and query.contest is None
        body: shapes.Problems = {
            "items": cast("list[shapes.Problem]", shown),
            "next_cursor": _next(shown, seq) if is_more else None,
            "as_of": seq,
        }
        return answered(request, body, seq)

    @app.get("/v1/problems/{slug}")
    async def one(
        request: Request, who: Asker, slug: str, version: Version = None
    ) -> Answer[shapes.ProblemWhole]:
        """One problem with its rules, in its newest version or another."""
        seen = Seen(reads, who)
        row = await problem_row(seen, slug, version)
        manifest = await manifests.of(row["manifest"])
        statement = manifest["files"].get(STATEMENT)
        said = (await manifests.text(statement)).decode() if statement else ""
        check = await check_of(row, manifests.text, is_known=seen.authors(row["slug"]))
        told = {"statement": said, "check": check}
        whole = without_check(row) | _rules(row, manifest) | told
        return answered(request, cast("shapes.ProblemWhole", whole))

    _files(app, reads, manifests)
    _templates(app, reads, manifests)


def _templates(app: FastAPI, reads: Reads, manifests: Manifests) -> None:
    @app.get("/v1/problems/{slug}/templates/{language}")
    async def template(
        request: Request,
        who: Asker,
        slug: str,
        language: str,
        query: Annotated[starts.Begun, Query()],
    ) -> Response:
        """What a submission begins as: the author's template, or one made of the reference.

        Above it stand its directives, the title, the deadline and the GPU types.
        """
        row = await problem_row(Seen(reads, who), slug, query.version)
        manifest = await manifests.of(row["manifest"])
        manifest = manifest | {"templates": _shown_templates(manifest)}
        one, gpus = templates.start(manifest, language), starts.wanted(row, query.gpu)
        digests = {name: manifest["files"][name] for name in templates.sources(manifest, one)}
        given = {name: await manifests.text(digest) for name, digest in digests.items()}
        data = await asyncio.to_thread(starts.text, row, manifest, one, given, gpus)
        name = f"{row['slug']}{one.suffix}"
        return starts.download(data, name, request.headers.get("if-none-match", ""))


def _files(app: FastAPI, reads: Reads, manifests: Manifests) -> None:
    @app.get("/v1/problems/{slug}/files/{name}")
    async def file(
        request: Request, who: Asker, slug: str, name: str, version: Version = None
    ) -> Response:
        """A file of a problem: its reference, its statement, a template to begin with."""
        row = await problem_row(Seen(reads, who), slug, version)
        manifest = await manifests.of(row["manifest"])
        if name not in (names := _visible(manifest)):
            raise Refused("not_found", f"no file {name!r}: there is {', '.join(names)}", "name")
        digest = manifest["files"][name]
        headers = {"ETag": f'"{digest}"', "X-Content-Type-Options": "nosniff"}
        if f'"{digest}"' in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        media = "text/plain; charset=utf-8"
        return Response(await manifests.text(digest), 200, headers, media)


async def problem_row(seen: Seen, slug: str, version: int | None = None) -> Row:
    """A problem that exists for who asks, whatever the case of its name. Errors: Refused."""
    wanted = {"slug": slug.lower(), "version": version, "state": None, "after": None}
    rows = await seen.rows("problems", **wanted, at=now(), limit=1)
    if not rows:
        which = f" in version {version}" if version else ""
        raise Refused("unknown_problem", f"there is no problem {slug!r}{which}", "problem")
    return _shown(rows[0], now())


def _next(shown: list[Row], seq: int) -> str:
    return cursors.text(ProblemCursor(made_at=time.time(), as_of=seq, slug=shown[-1]["slug"]))


def _listed(row: Row) -> Row:
    return without_check(_shown(row, now()))


def _shown(row: Row, at: datetime) -> Row:
    over_at = row["deadline_at"]
    is_over = over_at is not None and over_at <= at
    state = "archived" if row["archived_at"] else "ended" if is_over else "active"
    return row | {"name": row["slug"], "state": state, "is_over": is_over}


def _rules(row: Row, manifest: Row) -> Row:
    """What a participant has to know: never a seed, nor a file that is none of theirs."""
    visible = _visible(manifest)
    where = f"/v1/problems/{quote(row['slug'])}/files/"
    files = [{"name": name, "url": f"{where}{quote(name)}"} for name in visible]
    own = {name: manifest.get(name) for name in ("authors", "difficulty", "tags", "lang")}
    own |= starts.form(manifest)
    return own | {
        "description": manifest["description"],
        "templates": _shown_templates(manifest),
        "submission": manifest["submission"],
        "files": files,
        "starts": starts.starts(row, manifest | {"templates": _shown_templates(manifest)}),
        "rules": {
            "formula": f"{FORMULA[row['ranking_by']]}, in seconds; the lowest is first",
            "cases": {key: _cases(manifest[key]) for key in ("tests", "benchmarks")},
            "tolerances": CHECKS,
            "budgets_s": row["budgets_s"],
            "deadline_at": row["deadline_at"],
            "ties": TIES,
            "source_policy": policy_text(row["source_visible"], row["deadline_at"]),
            "requires": manifest.get("requires", {}),
            "licence": manifest.get("licence", {}),
            "consent": manifest.get("consent", ""),
            "roofline": _roofline(manifest),
        },
    }


def _roofline(manifest: Row) -> dict[str, str]:
    """The formulas of the least work, without what they come to."""
    return {key: one for key, one in manifest.get("roofline", {}).items() if key != "cases"}


def _cases(cases: list[Row]) -> list[Row]:
    """Cases without their seeds, which a ranked run draws anew."""
    plain = [{key: one for key, one in case["args"].items() if key != SEED} for case in cases]
    return [
        {"name": case_name(args), "args": args, "is_seeded": SEED in case["args"]}
        for case, args in zip(cases, plain, strict=True)
    ]


def _visible(manifest: Row) -> list[str]:
    return sorted(name for name in manifest["files"] if not name.lower().startswith(SECRET))


def _shown_templates(manifest: Row) -> dict[str, str]:
    visible = _visible(manifest)
    return {key: one for key, one in manifest["templates"].items() if one in visible}
