"""The page /docs: the OpenAPI document for people, with nothing from another server."""

from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse

PAGE, SWAGGER = "ingest.http", "fastapi_swagger"
CACHE = "public, max-age=3600"
# swagger-ui sets styles by itself; all else comes from here.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": CACHE,
}


def reference(app: FastAPI) -> None:
    """Answer the page, and what it is made of."""
    own = Path(str(files(PAGE))) / "page"
    swagger = Path(str(files(SWAGGER))) / "resources"

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        """The page."""
        return FileResponse(own / "docs.html", headers=HEADERS)

    @app.get("/static/docs.js", include_in_schema=False)
    async def begin() -> FileResponse:
        """What starts it."""
        return FileResponse(own / "docs.js", headers=HEADERS)

    @app.get("/static/swagger-ui.js", include_in_schema=False)
    async def program() -> FileResponse:
        """What draws it."""
        return FileResponse(swagger / "swagger-ui-bundle.js", headers=HEADERS)

    @app.get("/static/swagger-ui.css", include_in_schema=False)
    async def style() -> FileResponse:
        """How it looks."""
        return FileResponse(swagger / "swagger-ui.css", headers=HEADERS)
