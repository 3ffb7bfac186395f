"""Problems from outside: published."""

from typing import Annotated, Any, Literal

from fastapi import FastAPI, File, Form, Request, Response, UploadFile

from ingest.http import shapes
from ingest.http.who import Gate
from ingest.service.authors import Authors
from shared.errors import Refused

FILES_MAX = 256
SAME: dict[int | str, dict[str, Any]] = {200: {"description": "That version is there already."}}


def problems(app: FastAPI, authors: Authors, gate: Gate) -> None:
    """The routes of authors."""

    @app.post("/v1/problems", status_code=201, responses=SAME)
    async def publish(
        files: Annotated[list[UploadFile], File()],
        slug: Annotated[str, Form(min_length=1)],
        response: Response,
        request: Request,
        visibility: Annotated[Literal["public", "closed"] | None, Form()] = None,
    ) -> shapes.Published:
        """Publish a task.yml directory as a problem's newest version.

        A new problem is seen by everybody unless it is `closed`; another author's is not yours.
        """
        author = await gate.author(request, slug)
        if len(files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        named = {file.filename or "": await file.read() for file in files}
        published = await authors.publish(slug, named, author.actor, visibility)
        if not published.is_new:
            response.status_code = 200
        return {
            "slug": published.slug,
            "number": published.number,
            "digest": published.digest,
            "is_new": published.is_new,
            "warnings": list(published.warnings),
        }
