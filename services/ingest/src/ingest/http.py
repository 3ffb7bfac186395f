"""The routes under /v1: multipart in, JSON out, one shape of error."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, File, Form, Header, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from ingest.service import Ingest, Reads, Receipt, Upload
from shared.errors import Refused
from shared.http import BodyLimit, install

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
KEY = re.compile(r"[!-~]{1,255}\Z")
REQUEST_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 256
DOWNLOADS_MAX = 16


class PassedOn(Response):
    """A download from the read side, never whole in memory; at most so many at once as `slots`."""

    def __init__(self, reads: Reads, path: str, slots: asyncio.Semaphore) -> None:
        super().__init__()
        self.reads, self.path, self.slots = reads, path, slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it piece by piece, no faster than it is read. Errors: Failed."""
        async with self.slots, self.reads.stream(self.path) as stream:
            passed = StreamingResponse(stream.pieces, stream.status, stream.headers)
            await passed(scope, receive, send)


def participant(name: str | None) -> str:
    """The participant's name from the header Warpboard-Participant."""
    if not name:
        raise Refused(
            "missing_credential", "say who you are: header Warpboard-Participant", "participant"
        )
    if not NAME.match(name):
        raise Refused(
            "invalid_credential",
            f"{name!r} is no participant's name: 1 to 32 of a-z 0-9 _ and -, a letter or digit "
            "first",
            "participant",
        )
    return name


def application(ingest: Ingest, reads: Reads, is_well: Callable[[], Awaitable[str]]) -> FastAPI:
    """The public API over the two sides: commands to ingest, reads to ranker."""
    app = FastAPI(title="Warpboard", docs_url="/docs", openapi_url="/v1/openapi.json")
    app.add_middleware(BodyLimit, bytes_max=REQUEST_BYTES_MAX)
    install(app)
    _submit(app, ingest)
    _publish(app, ingest)

    @app.get("/health")
    async def health() -> JSONResponse:
        """Whether this door may take traffic: the log and the database answer."""
        ill = await is_well()
        if ill:
            return JSONResponse({"status": "ill", "detail": ill}, 503, {"Retry-After": "1"})
        return JSONResponse({"status": "ok"})

    slots = asyncio.Semaphore(DOWNLOADS_MAX)

    @app.get("/v1/submissions/{number}/files/{name}")
    async def download(number: int, name: str) -> Response:
        """A file of a submission's newest run: its log, its samples, an artefact."""
        path = f"/v1/submissions/{number}/files/{quote(name, safe='')}"
        return PassedOn(reads, path, slots)

    @app.get("/v1/{path:path}")
    async def read(path: str, request: Request) -> Response:
        """Every read: answered by ranker."""
        answer = await reads.read(f"/v1/{quote(path)}", request.url.query, request.headers)
        return Response(answer.body, answer.status, answer.headers)

    return app


def _submit(app: FastAPI, ingest: Ingest) -> None:
    @app.post("/v1/submissions", status_code=202)
    async def submit(
        file: Annotated[UploadFile, File()],
        problem: Annotated[str, Form()],
        request: Request,
        mode: Annotated[str, Form()] = "ranked",
        gpu: Annotated[list[str] | None, Form()] = None,
    ) -> dict[str, Any]:
        """Take one source file in; the answer comes after it is in the log."""
        key = request.headers.get("idempotency-key")
        if key is not None and not KEY.match(key):
            raise Refused("bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII", None)
        upload = Upload(
            participant=participant(request.headers.get("warpboard-participant")),
            problem=problem,
            mode=mode,
            gpus=[one for one in gpu or [] if one],
            name=file.filename or "submission.py",
            source=await file.read(),
            via="http",
            idempotency_key=key,
        )
        receipts = await ingest.submit(upload)
        return {
            "submissions": [_receipt(receipt) for receipt in receipts],
            "problem_version": receipts[0].problem_number,
            "is_replay": all(receipt.is_replay for receipt in receipts),
        }


def _publish(app: FastAPI, ingest: Ingest) -> None:
    @app.post("/v1/problems", status_code=201)
    async def publish(
        files: Annotated[list[UploadFile], File()],
        slug: Annotated[str, Form()],
        response: Response,
        warpboard_participant: Annotated[str | None, Header()] = None,
    ) -> dict[str, Any]:
        """Publish a task.yml directory as a problem's newest version."""
        author = participant(warpboard_participant)
        if len(files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        named = {file.filename or "": await file.read() for file in files}
        published = await ingest.publish(
            slug, named, f"account:{await ingest.people.account(author)}"
        )
        if not published.is_new:
            response.status_code = 200
        return {
            "slug": published.slug,
            "number": published.number,
            "digest": published.digest,
            "is_new": published.is_new,
            "warnings": list(published.warnings),
        }


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "number": receipt.number,
        "id": receipt.id,
        "gpu": receipt.gpu,
        "state": "received",
        "deadline_at": receipt.deadline_at.isoformat(),
        "links": {"self": f"/v1/submissions/{receipt.number}"},
    }
