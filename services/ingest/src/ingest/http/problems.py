"""Problems from outside: published."""

from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Response, UploadFile

from ingest.http.who import Participant
from ingest.service.authors import Authors
from shared.errors import Refused

FILES_MAX = 256


def problems(app: FastAPI, authors: Authors) -> None:
    """The routes of authors."""

    @app.post("/v1/problems", status_code=201)
    async def publish(
        files: Annotated[list[UploadFile], File()],
        slug: Annotated[str, Form()],
        response: Response,
        author: Participant,
    ) -> dict[str, Any]:
        """Publish a task.yml directory as a problem's newest version."""
        if len(files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        named = {file.filename or "": await file.read() for file in files}
        published = await authors.publish(slug, named, author)
        if not published.is_new:
            response.status_code = 200
        return {
            "slug": published.slug,
            "number": published.number,
            "digest": published.digest,
            "is_new": published.is_new,
            "warnings": list(published.warnings),
        }
