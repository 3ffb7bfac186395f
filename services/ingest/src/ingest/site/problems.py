"""The pages of problems, and those of contests: deadlines, named sets of problems, a calendar."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Path, Request, Response
from markupsafe import Markup

from harness.hidden_sizes import describe_choices
from ingest.identity.login.web import HEADERS, Web
from ingest.ports import ReadProxy
from ingest.site.formatting import highlight_code, language_title, render_markdown
from ingest.site.leaderboards import parse_version
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from shared.api.contest_standings import ContestStanding
from shared.api.leaderboards import LeaderboardLine, Leaderboards
from shared.api.problems import FullProblem, Problem, ProblemCase, Problems
from shared.clock import now
from shared.presentation.units import one_line
from shared.problems.sources import REFERENCE
from shared.problems.submission_file import SUFFIXES, suffix

PROBLEMS_PER_PAGE, PAGES_MAX = 200, 5
LEADERS_MAX = 3
TITLE_CHARS_MAX = 200
# RFC 5545, section 3.1: octets of a line, without its end.
LINE_BYTES_MAX = 75
CALENDAR_TIME = "%Y%m%dT%H%M%SZ"

ContestInPath = Annotated[str, Path(max_length=64)]
FILE_CHARS_MAX = 20_000
VALUE_CHARS_MAX = 60
# Older versions are reached by their number.
VERSIONS_LISTED_MAX = 20
LANGUAGE_BY_SUFFIX = {end: language for language, end in SUFFIXES.items()}


class Contest(NamedTuple):
    """A problem whose leaderboards have a deadline, and those that have entries, by GPU type."""

    problem: Problem
    deadline_at: datetime
    lines: dict[str, LeaderboardLine]


class NamedContest(NamedTuple):
    """Problems that form a contest; `ends_at` is their last deadline, None if one has none."""

    name: str
    problems: list[Problem]
    ends_at: datetime | None
    is_over: bool


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


def list_deadlines(problems: Sequence[Problem]) -> list[tuple[Problem, datetime]]:
    """Return the problems with a deadline, and it, soonest first."""
    dated = [
        (problem, problem.deadline_at) for problem in problems if problem.deadline_at is not None
    ]
    return sorted(dated, key=lambda pair: (pair[1], pair[0].slug))


def list_named_contests(problems: Sequence[Problem]) -> list[NamedContest]:
    """Return the contests that problems belong to, active ones first, by name."""
    by_name: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.contest:
            by_name.setdefault(problem.contest, []).append(problem)
    contests = [make_named_contest(name, members) for name, members in by_name.items()]
    return sorted(contests, key=lambda contest: (contest.is_over, contest.name))


def make_named_contest(name: str, problems: list[Problem]) -> NamedContest:
    """Return a contest of these problems."""
    deadlines = [deadline_at for _, deadline_at in list_deadlines(problems)]
    ends_at = deadlines[-1] if len(deadlines) == len(problems) else None
    return NamedContest(name, problems, ends_at, all(problem.is_over for problem in problems))


async def read_lines(reads: PageReads) -> dict[tuple[str, int], dict[str, LeaderboardLine]]:
    """Return the leaderboards by problem, version and GPU type; none if they cannot be read."""
    path = api_path("leaderboards")
    leaderboards = await read_if_possible(reads.read(path, Leaderboards, top=LEADERS_MAX))
    lines: dict[tuple[str, int], dict[str, LeaderboardLine]] = {}
    for line in leaderboards.items if leaderboards else ():
        lines.setdefault((line.problem, line.problem_version), {})[line.gpu] = line
    return lines


def render_calendar(
    deadlines: Sequence[tuple[Problem, datetime]], public_url: str, at: datetime
) -> str:
    """Return deadlines as iCalendar, made at an instant. Source: RFC 5545."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Warpboard//Deadlines//EN",
        "X-WR-CALNAME:Warpboard deadlines",
    ]
    for problem, deadline_at in deadlines:
        lines += _event_lines(problem, deadline_at, public_url, at)
    return "".join(f"{fold_line(line)}\r\n" for line in (*lines, "END:VCALENDAR"))


def _event_lines(
    problem: Problem, deadline_at: datetime, public_url: str, at: datetime
) -> Iterator[str]:
    """Yield an event without a duration: the instant after which nothing is accepted."""
    title = one_line(problem.title, TITLE_CHARS_MAX)
    page = f"{public_url}/problems/{quote(problem.slug, safe='')}"
    description = f"GPU types: {', '.join(problem.gpus) or 'none'}.\n{page}"
    yield "BEGIN:VEVENT"
    yield f"UID:deadline-{problem.slug}@{urlsplit(public_url).hostname}"
    yield f"DTSTAMP:{at.strftime(CALENDAR_TIME)}"
    yield f"DTSTART:{deadline_at.astimezone(UTC).strftime(CALENDAR_TIME)}"
    yield f"SUMMARY:{escape_text(f'Deadline: {title}')}"
    yield f"DESCRIPTION:{escape_text(description)}"
    yield f"URL:{page}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def escape_text(text: str) -> str:
    r"""Escape a text of iCalendar.

    >>> print(escape_text("a;b,c\\d\ne"))
    a\;b\,c\\d\ne
    """
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return text


def fold_line(line: str) -> str:
    r"""Fold a long line of iCalendar, never within a character.

    >>> [len(part.encode()) for part in fold_line("é" * 80).split("\r\n")]
    [74, 75, 13]
    """
    parts, size = [""], 0
    for character in line:
        character_bytes = len(character.encode())
        if size + character_bytes > LINE_BYTES_MAX:
            parts.append(" ")
            size = 1
        parts[-1] += character
        size += character_bytes
    return "\r\n".join(parts)


def add_contest_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the pages of the contests, and the calendar."""

    @router.get("/contests")
    async def contests(request: Request) -> Response:
        """Named contests, and each leaderboard with a deadline: its phases and fastest entries."""
        visitor = await find_visitor(request, web, ranker)
        reading = asyncio.gather(read_problems(visitor.reads), read_lines(visitor.reads))
        problems, lines = await read_in_time(reading)
        known = [
            Contest(problem, deadline_at, lines.get((problem.slug, problem.problem_version), {}))
            for problem, deadline_at in list_deadlines(problems)
        ]
        values: dict[str, Any] = {
            "named": list_named_contests(problems),
            "active": [contest for contest in known if not contest.problem.is_over],
            "ended": [contest for contest in reversed(known) if contest.problem.is_over],
        }
        return web.public_page(request, "contests.html", visitor.session, has_script=True, **values)

    @router.get("/contests/{name}")
    async def named_contest(request: Request, name: ContestInPath) -> Response:
        """A contest of several problems: its phases, problems and standing."""
        visitor = await find_visitor(request, web, ranker)
        reads = visitor.reads
        standing, problems = await read_in_time(
            asyncio.gather(
                reads.read(api_path("contests", name, "standing"), ContestStanding),
                read_problems(reads, contest=name, state="all"),
            )
        )
        values: dict[str, Any] = {
            "contest": make_named_contest(name, problems),
            "standing": standing,
            "account": visitor.account,
        }
        return web.public_page(request, "contest.html", visitor.session, has_script=True, **values)

    @router.get("/deadlines.ics")
    async def calendar(request: Request) -> Response:
        """The deadlines that the visitor can see; calendar programs send no cookie."""
        visitor = await find_visitor(request, web, ranker)
        deadlines = list_deadlines(await read_in_time(read_problems(visitor.reads)))
        text = render_calendar(deadlines, web.logins.public_url, now())
        return Response(text, headers=HEADERS, media_type="text/calendar")


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
