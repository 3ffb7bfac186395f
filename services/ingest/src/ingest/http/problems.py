"""Problems from outside: published, with all the settings of their leaderboards."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI, File, Request, Response, UploadFile

from ingest.domain import board_quotas
from ingest.domain.callers import Caller, check_scope
from ingest.http import shapes
from ingest.http.publications import WHY, Wanted, wanted
from ingest.http.who import Gate
from ingest.service.authors import Authors, Publication
from shared.errors import Refused

FILES_MAX = 256
SAME: dict[int | str, dict[str, Any]] = {200: {"description": "That version is there already."}}


def problems(app: FastAPI, authors: Authors, gate: Gate) -> None:
    """The routes of authors."""

    @app.post("/v1/problems", status_code=201, responses=SAME)
    async def publish(
        files: Annotated[list[UploadFile], File()],
        said: Annotated[Wanted, Depends(wanted)],
        response: Response,
        request: Request,
    ) -> shapes.Published:
        """Publish a task.yml directory as a problem's newest version, with its settings.

        A version that is not there yet comes with the `report` of its check; operators alone may
        say why there is none, in `unchecked`. A new problem is seen by everybody unless it is
        `closed`; another author's is not yours. What is not said of leaderboards stays as it is.
        """
        author = await gate.author(request, said.slug)
        if len(files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        named = {file.filename or "": await file.read() for file in files}
        published = await authors.publish(_publication(said, named, author), author.actor)
        if not published.is_new:
            response.status_code = 200
        return {
            "slug": published.slug,
            "number": published.number,
            "digest": published.digest,
            "is_new": published.is_new,
            "warnings": [*published.warnings, *said.warnings],
        }


def _publication(said: Wanted, files: dict[str, bytes], author: Caller) -> Publication:
    """Errors: Refused."""
    if said.check.unchecked:
        check_scope(author, "admin:problems")
    limits = tuple(board_quotas.quota(said.slug, one, WHY) for one in said.quotas)
    return Publication(
        slug=said.slug,
        files=files,
        check=said.check,
        settings=said.settings,
        change=said.change,
        quotas=limits,
        is_operator=author.may("admin:problems"),
    )
