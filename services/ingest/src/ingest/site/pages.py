"""The front page, the queue, the agents, the command line, schemas, static files; all routes."""

import asyncio
import gzip
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ingest.bootstrap import Ingest
from ingest.identity.login.web import Web, route_class
from ingest.ports import ReadProxy
from ingest.site.admin.pages import add_admin_pages
from ingest.site.archive import add_archive_page
from ingest.site.badges import add_badges
from ingest.site.charts import Chart, draw_canaries, draw_sparkline
from ingest.site.client_package import add_client_pages, build_wheel, install_command
from ingest.site.contests import add_contest_pages
from ingest.site.creation import add_creation_pages
from ingest.site.editor import CODE_EDITOR, add_resubmission_page, add_submission_forms
from ingest.site.formatting import FILTERS
from ingest.site.guide import add_guide_pages
from ingest.site.leaderboards import add_leaderboard_pages
from ingest.site.people import add_people_pages
from ingest.site.problems import add_problem_pages
from ingest.site.reads import PageReads, api_path, find_visitor, read_if_possible, read_in_time
from ingest.site.reference import add_reference_page
from ingest.site.submissions import SubmissionPage, add_comparison_page, add_submission_page
from shared.api.agents import Agent, Agents, CurrentRun
from shared.api.leaderboards import LeaderboardLine, Leaderboards, Record, Records
from shared.api.problems import Problem, Problems
from shared.api.queues import Pool, Queues
from shared.api.submissions import NewestSubmissions
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import (
    QueuePlaces,
    agent_state_text,
    busy_pools,
    group_jobs,
    held_back_text,
    launcher_label,
    launcher_usage,
    list_launchers,
)
from shared.problems.warpboard_yml import problem_schemas

ICON_S = 86_400
STATIC_S = 3600
SCHEMA_S = 3600
PROBLEMS_MAX = 200
LEADERS_MAX = 3
SPARK_RECORDS_MAX = 20
RECORDS_MAX = 10
SEARCH_CHARS_MAX = 100
API = "/v1/"
STATIC = {
    "site.css": "text/css",
    **dict.fromkeys(
        ("board.js", "chart.js", "copy.js", "editor.js", "follow.js", "refresh.js", "times.js"),
        "text/javascript",
    ),
    CODE_EDITOR: "text/javascript",
}

SearchText = Annotated[str, Query(alias="q", max_length=SEARCH_CHARS_MAX)]
FilterText = Annotated[str, Query(max_length=SEARCH_CHARS_MAX)]
# How often the script reads a page again; without scripts, browsers load it again more rarely.
REFRESH_S, RELOAD_S = 5, 30
OPEN_MAX = 100
JOBS_MAX = 100


class Overview(NamedTuple):
    """What a visitor can see: problems, entries of their newest versions by GPU type, and records.

    Without an answer of the read side, `problems` is None. `agents` is by GPU type.
    """

    problems: Problems | None
    lines: Mapping[str, Mapping[str, LeaderboardLine]]
    records: Sequence[Record]
    agents: Mapping[str, int]


class Cell(NamedTuple):
    """A problem on a GPU type in the matrix of leaderboards.

    `line` is None without an entry, and `spark` is the SVG path of its record.
    """

    gpu: str
    line: LeaderboardLine | None
    spark: str
    is_open: bool


class MatrixRow(NamedTuple):
    """A problem with a cell for each column, None where it has no such GPU type."""

    problem: Problem
    cells: Sequence[Cell | None]


class Matrix(NamedTuple):
    """The leaderboards of problems: GPU types as columns, and those that are left out."""

    columns: Sequence[str]
    hidden: Sequence[str]
    rows: Sequence[MatrixRow]


class ProblemFilter(NamedTuple):
    """The problems to show: by a GPU type, a language and a tag, each "" for all."""

    gpu: str
    language: str
    tag: str

    def accepts(self, problem: Problem) -> bool:
        """Return whether to show a problem."""
        return (
            self.gpu in ("", *problem.gpus, *problem.gpus_closed)
            and self.language in ("", *problem.languages)
            and self.tag in ("", *(problem.tags or ()))
        )


async def read_overview(reads: PageReads, search: str) -> Overview:
    """Read the leaderboards; without problems if the read side does not answer in time."""
    filters = {"limit": PROBLEMS_MAX, "search": search or None}
    try:
        problems, leaderboards, records = await read_in_time(
            asyncio.gather(
                reads.read(api_path("problems"), Problems, **filters),
                read_if_possible(
                    reads.read(
                        api_path("leaderboards"),
                        Leaderboards,
                        top=LEADERS_MAX,
                        records=SPARK_RECORDS_MAX,
                    )
                ),
                read_if_possible(reads.read(api_path("records"), Records, limit=RECORDS_MAX)),
            )
        )
    except Failed:
        return Overview(None, {}, (), {})
    newest = {problem.slug: problem.problem_version for problem in problems.items}
    lines: dict[str, dict[str, LeaderboardLine]] = {}
    for line in leaderboards.items if leaderboards else ():
        if newest.get(line.problem) == line.problem_version:
            lines.setdefault(line.problem, {})[line.gpu] = line
    agents = leaderboards.agents_online if leaderboards else {}
    return Overview(problems, lines, records.items if records else (), agents)


def make_matrix(problems: Sequence[Problem], overview: Overview, gpu: str) -> Matrix:
    """Return the leaderboards of problems as a matrix: one GPU type, or those that are in use.

    A type is in use if it has an agent, or one of the problems has an entry there. If none is, all
    are shown. Those with the most entries come first.
    """
    entries: dict[str, int] = {}
    for problem in problems:
        for name in (*problem.gpus, *problem.gpus_closed):
            line = overview.lines.get(problem.slug, {}).get(name)
            entries[name] = entries.get(name, 0) + (line.entries_count if line else 0)
    used = [name for name in entries if entries[name] or overview.agents.get(name)]
    columns = sorted([gpu] if gpu in entries else used or [*entries], key=lambda it: -entries[it])
    rows = [
        MatrixRow(problem, [_make_cell(problem, overview, column) for column in columns])
        for problem in problems
    ]
    return Matrix(columns, [name for name in entries if name not in columns], rows)


def _make_cell(problem: Problem, overview: Overview, gpu: str) -> Cell | None:
    is_open = gpu in problem.gpus and problem.state == "active"
    if gpu not in (*problem.gpus, *problem.gpus_closed):
        return None
    line = overview.lines.get(problem.slug, {}).get(gpu)
    return Cell(gpu, line, draw_sparkline(line.records) if line else "", is_open)


def example_options(problems: Sequence[Problem]) -> str:
    """Return the options that submit to a problem, or placeholders if none accepts submissions."""
    for problem in problems:
        if problem.state == "active" and problem.gpus:
            return f"--leaderboard {problem.slug} --gpu {problem.gpus[0]}"
    return "--leaderboard PROBLEM --gpu GPU"


def add_public_pages(app: FastAPI, web: Web, ranker: ReadProxy, commands: Ingest) -> None:
    """Add the routes of all pages that need no login."""
    web.templates.filters.update(FILTERS)
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    _add_home(router, web, ranker)
    _add_files(router)
    add_client_pages(router, web)
    add_contest_pages(app, router, web, ranker, commands)
    add_creation_pages(app, router, web, ranker)
    add_guide_pages(router, web)
    add_reference_page(app, router, web)
    add_leaderboard_pages(router, web, ranker)
    add_archive_page(router, web, ranker)
    add_badges(router, web, ranker)
    add_people_pages(router, web, ranker, commands.quotas)
    add_platform_pages(router, web, ranker)
    add_problem_pages(router, web, ranker)
    submission_page = SubmissionPage(web)
    add_submission_page(router, submission_page, ranker)
    add_submission_forms(router, submission_page, ranker, commands)
    add_resubmission_page(router, web, commands)
    add_comparison_page(router, web, ranker)
    add_admin_pages(app, router, web)
    for route in router.routes:
        # Monitors and services that show previews of links ask with HEAD first.
        if isinstance(route, APIRoute) and route.methods == {"GET"}:
            route.methods = {"GET", "HEAD"}
    app.include_router(router)
    _add_missing_page(app, web)


def _add_missing_page(app: FastAPI, web: Web) -> None:
    """Answer browsers that open an unknown address with a page; programs get JSON as before."""
    answer = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path, media = request.url.path, request.headers.get("accept", "")
        if error.status_code == 404 and "text/html" in media and not path.startswith(API):
            return await web.error_page(
                request, Refused("not_found", f"there is no page {path[:100]}")
            )
        response = answer(request, error)
        return await response if isinstance(response, Awaitable) else response


def _add_home(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get("/")
    async def home(
        request: Request,
        search: SearchText = "",
        gpu: FilterText = "",
        language: FilterText = "",
        tag: FilterText = "",
    ) -> Response:
        """The front page: the leaderboards, the newest records, and how to start."""
        visitor = await find_visitor(request, web, ranker)
        overview, wheel = await asyncio.gather(
            read_overview(visitor.reads, search.strip()), asyncio.to_thread(build_wheel)
        )
        page, filters = overview.problems, ProblemFilter(gpu, language, tag)
        visible_problems = page.items if page else []
        problems = [problem for problem in visible_problems if filters.accepts(problem)]
        # Those with entries come first; otherwise they are in the order of their names.
        active = sorted(
            (problem for problem in problems if problem.state == "active"),
            key=lambda problem: problem.slug not in overview.lines,
        )
        ended = [problem for problem in problems if problem.state != "active"]
        values: dict[str, Any] = {
            "problems": problems if page else None,
            "filters": filters,
            "gpus": _options(gpu, (problem.gpus for problem in visible_problems)),
            "languages": _options(language, (problem.languages for problem in visible_problems)),
            "tags": _options(tag, (problem.tags or () for problem in visible_problems)),
            "titles": {problem.slug: problem.title for problem in visible_problems},
            "records": overview.records,
            "active": make_matrix(active, overview, gpu),
            "ended": make_matrix(ended, overview, gpu),
            "agents": overview.agents,
            "search": search.strip(),
            "is_filtered": bool(search.strip() or any(filters)),
            "has_more": page is not None and page.next_cursor is not None,
            "example_options": example_options(problems),
            "install_command": install_command(web.logins.public_url, wheel),
        }
        return web.public_page(request, "home.html", visitor.session, has_script=True, **values)


def _options(chosen: str, lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the values of a filter, with the chosen one."""
    values = {value for values in lists for value in values}
    return sorted(values | {chosen} if chosen else values)


def _add_files(router: APIRouter) -> None:
    static = files("ingest.site") / "static"
    icon = (static / "favicon.svg").read_bytes()

    @router.get("/schemas/{name}")
    async def schema(name: str) -> Response:
        """The JSON Schema of a file of a problem."""
        schemas = problem_schemas()
        if name not in schemas:
            known = " and ".join(f"/schemas/{other}" for other in schemas)
            raise Refused("not_found", f"there is no schema {name[:100]!r}: there are {known}")
        headers = {"Cache-Control": f"public, max-age={SCHEMA_S}"}
        return JSONResponse(schemas[name], headers=headers, media_type="application/schema+json")

    @router.get("/favicon.ico")
    @router.get("/favicon.svg")
    async def favicon() -> Response:
        """The icon of all pages."""
        headers = {"Cache-Control": f"public, max-age={ICON_S}"}
        return Response(icon, media_type="image/svg+xml", headers=headers)

    for name, media in STATIC.items():
        file = static / name
        # Only the code editor may be missing: then it is an empty script.
        _add_static(router, name, media, file.read_bytes() if file.is_file() else b"")


def _add_static(router: APIRouter, name: str, media: str, data: bytes) -> None:
    packed = gzip.compress(data, mtime=0)

    @router.get(f"/static/{name}")
    async def static_file(request: Request) -> Response:
        """A file that the pages load."""
        headers = {"Cache-Control": f"public, max-age={STATIC_S}", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(data, media_type=media, headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(packed, media_type=media, headers=headers)


class PoolRow(NamedTuple):
    """The queue of a GPU type, how many of its submissions run, and its first lines."""

    pool: Pool
    running: int
    lines: list[QueuePlaces]
    jobs_more: int


class AgentRow(NamedTuple):
    """An agent, its state in words, whether it takes jobs, its runs with their times, its canaries.

    Without two canaries, `chart` is None.
    """

    agent: Agent
    state: str
    is_ready: bool
    runs: list[tuple[CurrentRun, float]]
    chart: Chart | None


def make_agent_row(agent: Agent, at: datetime) -> AgentRow:
    """Return the row of an agent at an instant."""
    return AgentRow(
        agent,
        agent_state_text(agent),
        agent.is_alive and not held_back_text(agent),
        [(run, max(0.0, (at - run.assigned_at).total_seconds())) for run in agent.current_runs],
        draw_canaries(agent.canaries),
    )


def list_pools(queues: Queues, *, is_all: bool) -> list[PoolRow]:
    """Return the queues; by default without idle GPU types, and baselines in a row as one line."""
    rows = []
    for pool in queues.pools if is_all else busy_pools(queues.pools):
        jobs = pool.forecast[:JOBS_MAX]
        lines = [QueuePlaces(job.position, job.position, job) for job in jobs]
        running = sum(
            depth.submissions
            for depth in queues.items
            if depth.gpu == pool.gpu and depth.state in ("assigned", "running")
        )
        rows.append(
            PoolRow(
                pool,
                running,
                lines if is_all else group_jobs(jobs),
                max(0, len(pool.forecast) - JOBS_MAX),
            )
        )
    return rows


async def read_open_submissions(reads: PageReads) -> NewestSubmissions | None:
    """Return the unfinished submissions that the reader can see, None if they cannot be read."""
    path = api_path("submissions")
    return await read_if_possible(reads.read(path, NewestSubmissions, state="open", limit=OPEN_MAX))


def add_platform_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the pages of the queue and of the agents."""

    @router.get("/queue")
    async def queue(request: Request) -> Response:
        """What waits and runs on each GPU type, the forecast, and for staff the launchers."""
        is_all = request.query_params.get("all") == "1"
        visitor = await find_visitor(request, web, ranker)
        queues, submissions = await read_in_time(
            asyncio.gather(
                visitor.reads.read(api_path("queue"), Queues),
                read_open_submissions(visitor.reads),
            )
        )
        pools = list_pools(queues, is_all=is_all)
        values: dict[str, Any] = {
            "pools": pools,
            "pools_hidden": len(queues.pools) - len(pools),
            "is_all": is_all,
            "launchers": [
                (launcher_label(launcher), launcher.kind, gpus, *launcher_usage(launcher))
                for launcher, gpus in list_launchers(queues.pools)
            ],
            "parked": queues.parked,
            "submissions": submissions.items if submissions else None,
            "account": visitor.account,
            "refresh_s": REFRESH_S,
            "reload_s": RELOAD_S,
        }
        return web.public_page(request, "queue.html", visitor.session, has_script=True, **values)

    @router.get("/agents")
    async def agents(request: Request) -> Response:
        """Every agent with its state, isolation, timing and canaries."""
        visitor = await find_visitor(request, web, ranker)
        known = await read_in_time(visitor.reads.read(api_path("agents"), Agents))
        at = now()
        rows = [make_agent_row(agent, at) for agent in known.items if agent.standing != "revoked"]
        values: dict[str, Any] = {
            "rows": sorted(rows, key=lambda row: (not row.agent.is_alive, row.agent.id)),
            "revoked_count": len(known.items) - len(rows),
            "refresh_s": REFRESH_S,
            "reload_s": RELOAD_S,
        }
        return web.public_page(request, "agents.html", visitor.session, has_script=True, **values)
