"""The pages of problems."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from harness.hidden_sizes import describe_choices
from ingest.identity.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.formatting import highlight_code, language_title, render_markdown
from ingest.site.leaderboards import parse_version
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.leaderboards import Leaderboards
from shared.api.problems import FullProblem, Problem, ProblemCase, Problems
from shared.problems.sources import REFERENCE
from shared.problems.submission_file import SUFFIXES, suffix

PROBLEMS_PER_PAGE, PAGES_MAX = 200, 5
FILE_CHARS_MAX = 20_000
VALUE_CHARS_MAX = 60
# Older versions are reached by their number.
VERSIONS_LISTED_MAX = 20
LANGUAGE_BY_SUFFIX = {end: language for language, end in SUFFIXES.items()}


async def read_problems(reads: PageReads, **filters: object) -> list[Problem]:
    """Return the problems, by name. Raises `Failed`."""
    problems: list[Problem] = []
    path, cursor = api_path("problems"), None
    for _ in range(PAGES_MAX):
        page = await reads.read(path, Problems, limit=PROBLEMS_PER_PAGE, cursor=cursor, **filters)
        problems += page.items
        if (cursor := page.next_cursor) is None:
            break
    return problems


class CodeFile(NamedTuple):
    """A file of a problem, with its code as safe HTML."""

    title: str
    name: str
    url: str
    code: Markup


class ProblemReads(NamedTuple):
    """A problem, its leaderboards, and the code of its reference and starters."""

    problem: FullProblem
    leaderboards: Leaderboards | None
    files: Sequence[CodeFile]


async def read_problem(reads: PageReads, slug: str, version: int | None) -> ProblemReads:
    """Read a problem. Raises `Refused` and `Failed`."""
    problem, leaderboards = await asyncio.gather(
        reads.read(api_path("problems", slug), FullProblem, version=version),
        read_if_possible(reads.read(api_path("leaderboards"), Leaderboards, problem=slug)),
    )

    async def read_code(title: str, name: str, url: str) -> CodeFile | None:
        data = await read_if_possible(reads.read_bytes(url, version=version))
        if data is None:
            return None
        text = data.decode("utf-8", "replace")[:FILE_CHARS_MAX]
        language = LANGUAGE_BY_SUFFIX[suffix(name)]
        return CodeFile(title, name, url, await asyncio.to_thread(highlight_code, text, language))

    references = (file for file in problem.files if file.name == REFERENCE)
    files = await asyncio.gather(
        *(read_code("Reference", file.name, file.url) for file in references),
        *(
            read_code(f"Starter for {language_title(start.language)}", start.name, start.url)
            for start in problem.starts
        ),
    )
    return ProblemReads(problem, leaderboards, [file for file in files if file])


def argument_names(cases: Sequence[ProblemCase]) -> list[str]:
    """Return the names of the arguments of cases, in order.

    >>> argument_names([ProblemCase(name="n", args={"n": 1}, is_seeded=True)])
    ['n']
    """
    return list(dict.fromkeys(name for case in cases for name in case.args))


def add_problem_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the page of a problem."""

    @router.get("/problems/{slug}")
    async def problem_page(request: Request, slug: str) -> Response:
        """A problem in its newest or another version."""
        requested = parse_version(request.query_params.get("version", ""))
        visitor = await find_visitor(request, web, ranker)
        problem, leaderboards, files = await read_in_time(
            read_problem(visitor.reads, slug, requested)
        )
        cases, version = problem.rules.cases, problem.problem_version
        lines = leaderboards.items if leaderboards else []
        oldest = max(1, min(version, problem.newest_version - VERSIONS_LISTED_MAX + 1))
        values: dict[str, Any] = {
            "problem": problem,
            "statement": await asyncio.to_thread(render_markdown, problem.statement),
            # The leaderboards of this version that have entries.
            "lines": {line.gpu: line for line in lines if line.problem_version == version},
            "files": files,
            "hidden_families": [
                (family, {name: describe_choices(value) for name, value in family.args.items()})
                for family in cases.hidden
            ],
            "case_groups": [
                ("Tests, which are checked", cases.tests, argument_names(cases.tests), False),
                (
                    "Benchmarks, which are timed",
                    cases.benchmarks,
                    argument_names(cases.benchmarks),
                    len({case.weight for case in cases.benchmarks}) > 1,
                ),
            ],
            "versions": range(problem.newest_version, oldest - 1, -1),
            "value_chars_max": VALUE_CHARS_MAX,
        }
        return web.public_page(request, "problem.html", visitor.session, has_script=True, **values)
