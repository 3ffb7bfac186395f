"""What needs no login: the front page, the command line, schemas of problem files, the icon."""

import asyncio
from collections.abc import Sequence
from importlib.resources import files

import msgspec
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse

from ingest.client_package import add_client_pages, build_wheel, install_command
from ingest.login.web import Web, route_class
from ingest.ports import ReadProxy
from shared.api.problems import Problem, Problems
from shared.errors import Failed, Refused
from shared.problems.schemas import problem_schemas
from shared.reader import Reader

# A page that waits longer says that the problems are unavailable.
READ_S_MAX = 3.0
ICON_S = 86_400
SCHEMA_S = 3600


async def read_problems(ranker: ReadProxy) -> Problems | None:
    """Return the problems that everybody may see, None if the read side does not answer in time."""
    try:
        async with asyncio.timeout(READ_S_MAX):
            response = await ranker.read("/v1/problems", "", {}, Reader())
        # A ranker of another version, during an upgrade, may answer in another form.
        return msgspec.json.decode(response.body, type=Problems)
    except (Failed, TimeoutError, msgspec.DecodeError):
        return None


def example_options(problems: Sequence[Problem]) -> str:
    """Return the options that submit to a problem, or placeholders if none accepts submissions."""
    for problem in problems:
        if problem.state == "active" and problem.gpus:
            return f"--leaderboard {problem.slug} --gpu {problem.gpus[0]}"
    return "--leaderboard PROBLEM --gpu GPU"


def add_public_pages(app: FastAPI, web: Web, ranker: ReadProxy) -> None:
    """Add the routes."""
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    icon = (files("ingest.login") / "static" / "favicon.svg").read_bytes()

    @router.get("/")
    @router.head("/")
    async def home() -> Response:
        """The front page: how to start, the problems and their leaderboards."""
        page = await read_problems(ranker)
        wheel = await asyncio.to_thread(build_wheel)
        problems = page.items if page else []
        values = {
            "problems": problems if page else None,
            "has_more": page is not None and page.next_cursor is not None,
            "example_options": example_options(problems),
            "install_command": install_command(web.logins.public_url, wheel),
        }
        return web.public_page("home.html", **values)

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

    add_client_pages(router, web)
    app.include_router(router)
