"""The page of a problem: statement, cases, how it is measured, how to start, and its versions."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from ingest.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.formatting import render_markdown
from ingest.site.leaderboards import parse_version
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.leaderboards import Leaderboards
from shared.api.problems import FullProblem, ProblemCase

STARTER_CHARS_MAX = 20_000
VALUE_CHARS_MAX = 60
# Older versions are reached by their number.
VERSIONS_LISTED_MAX = 20
LANGUAGES = {"python": "Python", "cpp": "C++", "cuda": "CUDA"}


class ProblemReads(NamedTuple):
    """A problem, its leaderboards, and the file to start from."""

    problem: FullProblem
    leaderboards: Leaderboards | None
    starter: str


async def read_problem(reads: PageReads, slug: str, version: int | None) -> ProblemReads:
    """Read a problem. Raises `Refused` and `Failed`."""
    path = api_path("problems", slug)
    problem, leaderboards = await asyncio.gather(
        reads.read(path, FullProblem, version=version),
        read_if_possible(reads.read(api_path("leaderboards"), Leaderboards, problem=slug)),
    )
    if not problem.starts:
        return ProblemReads(problem, leaderboards, "")
    template = api_path("problems", problem.slug, "templates", problem.starts[0].language)
    starter = await read_if_possible(reads.read_bytes(template, version=version))
    text = (starter or b"").decode("utf-8", "replace")[:STARTER_CHARS_MAX]
    return ProblemReads(problem, leaderboards, text)


def argument_names(cases: Sequence[ProblemCase]) -> list[str]:
    """Return the names of the arguments of cases, in order.

    >>> argument_names([ProblemCase(name="n", args={"n": 1}, is_seeded=True)])
    ['n']
    """
    return list(dict.fromkeys(name for case in cases for name in case.args))


def add_problem_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the page of a problem."""

    @router.get("/problems/{slug}")
    @router.head("/problems/{slug}")
    async def problem_page(request: Request, slug: str) -> Response:
        """A problem in its newest or another version."""
        requested = parse_version(request.query_params.get("version", ""))
        visitor = await find_visitor(request, web, ranker)
        problem, leaderboards, starter = await read_in_time(
            read_problem(visitor.reads, slug, requested)
        )
        cases, version = problem.rules.cases, problem.problem_version
        lines = leaderboards.items if leaderboards else []
        oldest = max(1, problem.newest_version - VERSIONS_LISTED_MAX + 1)
        values: dict[str, Any] = {
            "problem": problem,
            "statement": render_markdown(problem.statement),
            # The leaderboards of this version that have entries.
            "lines": {line.gpu: line for line in lines if line.problem_version == version},
            "starter": starter,
            "languages": [LANGUAGES.get(name, name) for name in problem.languages],
            "language_names": LANGUAGES,
            "case_groups": [
                ("Tests, which are checked", cases.tests, argument_names(cases.tests)),
                ("Benchmarks, which are timed", cases.benchmarks, argument_names(cases.benchmarks)),
            ],
            "versions": range(problem.newest_version, oldest - 1, -1),
            "value_chars_max": VALUE_CHARS_MAX,
        }
        return web.public_page(request, "problem.html", visitor.session, has_script=True, **values)
