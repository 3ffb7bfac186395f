"""The client's profiler service: a profile as a job, whose artefacts are zips."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from ingest.domain import submissions
from ingest.domain.callers import Caller
from ingest.popcorn import asked, multipart, shapes
from ingest.popcorn.asked import TAG
from ingest.popcorn.parts import Parts, board, patient
from ingest.popcorn.profiles import archive, archive_name, cases
from ingest.popcorn.seen import Shown
from ingest.popcorn.standing import runner_queue, standing
from ingest.service.batches import Upload
from shared.answers import Documented
from shared.blobs import Missing
from shared.errors import Refused

_JOB = re.compile(r"(\d{1,15})(?:-(\d{1,3}))?\Z")
STATUSES: Mapping[str, Literal["queued", "running", "succeeded", "timed_out"]] = {
    "pending": "queued",
    "running": "running",
    "succeeded": "succeeded",
    "timed_out": "timed_out",
}
ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}


def profiler(parts: Parts) -> APIRouter:
    """The routes; a job is its owner's alone."""
    router = APIRouter(tags=[TAG], route_class=Documented)
    profiles = parts.gate.participant("profile")
    reads = patient(parts.gate.participant("read:own"))

    @router.post("/profile", openapi_extra=asked.profile())
    async def profile(request: Request) -> shapes.Profiling:
        """Profile a file on the GPU type that the operator set."""
        try:
            sent: multipart.Upload | Refused = await multipart.upload(request)
        except Refused as refused:
            sent = refused
        caller = await profiles(request)
        if isinstance(sent, Refused):
            raise sent
        index = _index(sent.texts.get("benchmark_index", ""))
        number = await _submit(parts, caller, sent, index)
        return {"job_id": f"{number}{index}"}

    @router.get("/jobs/{job_id}")
    async def job(job_id: str, request: Request) -> shapes.ProfileJob:
        """How far a job is, and what it left."""
        number, only = _job(job_id)
        seen = await parts.asking.owned(number, await reads(request))
        return _shown(seen, only)

    @router.get("/jobs/{job_id}/artifacts/{index}", response_class=Response, responses=ZIP)
    async def artifact(job_id: str, index: str, request: Request) -> Response:
        """What profilers saw of one case, as a zip."""
        number, _ = _job(job_id)
        seen = await parts.asking.owned(number, await reads(request))
        if index not in map(str, cases(seen)):
            raise Refused("not_found", f"job {job_id} has no artefact {index[:20]!r}", "index")
        data = await _archive(parts, seen, int(index))
        name = archive_name(number, int(index))
        sent = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type="application/zip", headers=sent)

    return router


async def _submit(parts: Parts, caller: Caller, sent: multipart.Upload, index: str) -> int:
    slug = sent.texts.get("leaderboard", "").lower()
    await parts.ingest.intake.check_open()
    found = await board(parts, caller, slug)
    if index:
        # The client counts the timed cases from 0 on. All are profiled, but one must be there.
        published = await parts.ingest.intake.published(slug)
        submissions.check_case(int(index.removeprefix("-")) + 1, "profile", published)
    upload = Upload(
        caller=caller,
        problem=slug,
        mode="profile",
        gpus=[parts.profiler_gpu or found.gpus[0]],
        name=sent.name,
        source=sent.data,
        via="popcorn",
        idempotency_key=None,
    )
    (receipt,) = await parts.ingest.intake.submit(upload)
    return receipt.number


def _index(text: str) -> str:
    """Which case is wanted, as it is kept in a job's id; "" for all of them."""
    if text and not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise Refused("bad_query", f"benchmark_index is 0 to 999, not {text[:20]!r}", "index")
    return f"-{int(text)}" if text else ""


def _job(job_id: str) -> tuple[int, int | None]:
    """The submission behind a job's id, and the one case that was asked for."""
    match = _JOB.match(job_id)
    if match is None:
        raise Refused("unknown_submission", f"there is no job {job_id[:40]!r}", "job_id")
    return int(match[1]), None if match[2] is None else int(match[2])


def _shown(seen: Shown, only: int | None) -> shapes.ProfileJob:
    now, queue = standing(seen), runner_queue(seen.wait)
    wanted = [index for index in cases(seen) if only in (None, index)]
    base = f"/jobs/{seen.number}/artifacts"
    is_over = now.status == "succeeded"
    return {
        "status": STATUSES.get(now.status, "failed"),
        "queue_position": None if queue is None else queue["queued_jobs"] + 1,
        "error": now.error,
        "artifacts": [
            {"name": archive_name(seen.number, index), "url": f"{base}/{index}"}
            for index in (wanted if is_over else ())
        ],
    }


async def _archive(parts: Parts, seen: Shown, index: int) -> bytes:
    files = cases(seen)[index]
    try:
        contents = {file.name: await parts.blobs.get(file.digest) for file in files}
    except Missing as missing:
        raise Refused("not_found", f"it is not kept any more: {missing}", "index") from missing
    return archive(files, contents)
