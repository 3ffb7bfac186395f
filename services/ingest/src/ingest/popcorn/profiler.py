"""The client's profiler service: profiling jobs with zip artefacts."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from ingest.access.callers import Caller
from ingest.popcorn import dependencies, multipart, response_models
from ingest.popcorn.dependencies import TAG, Dependencies, find_leaderboard, retry_while_unavailable
from ingest.popcorn.job_status import job_status, queue_of, runner_queue
from ingest.popcorn.results import archive_name, build_archive, files_by_case
from ingest.submissions import rules as submissions
from ingest.submissions.intake import Upload
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.blobs import BlobNotFound
from shared.errors import Refused
from shared.response_types import DocumentedRoute

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


def profiler_router(deps: Dependencies) -> APIRouter:
    """The routes; a job belongs to its owner."""
    router = APIRouter(tags=[TAG], route_class=DocumentedRoute)
    require_profile = deps.auth.participant("profile")
    require_reader = retry_while_unavailable(deps.auth.participant("read:own"))

    @router.post("/profile", openapi_extra=dependencies.profile_form())
    async def profile(request: Request) -> response_models.StartedProfile:
        """Profile a file on the configured GPU type."""
        upload = await multipart.read_upload(request)
        caller = await require_profile(request)
        if isinstance(upload, Refused):
            raise upload
        index = _parse_index(upload.texts.get("benchmark_index", ""))
        number = await _submit(deps, caller, upload, index)
        return {"job_id": f"{number}{index}"}

    @router.get("/jobs/{job_id}")
    async def job(job_id: str, request: Request) -> response_models.ProfileJob:
        """The status of a job, and its artefacts."""
        number, case_index = _parse_job_id(job_id)
        submission = await deps.read_client.load_own(number, await require_reader(request))
        return _job_response(submission, case_index)

    @router.get("/jobs/{job_id}/artifacts/{index}", response_class=Response, responses=ZIP)
    async def artifact(job_id: str, index: str, request: Request) -> Response:
        """The profile of one case, as a zip."""
        number, _ = _parse_job_id(job_id)
        submission = await deps.read_client.load_own(number, await require_reader(request))
        if index not in map(str, files_by_case(submission)):
            raise Refused("not_found", f"job {job_id} has no artefact {index[:20]!r}", "index")
        data = await _load_archive(deps, submission, int(index))
        name = archive_name(number, int(index))
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type="application/zip", headers=headers)

    return router


async def _submit(deps: Dependencies, caller: Caller, file: multipart.Upload, index: str) -> int:
    slug = file.texts.get("leaderboard", "").lower()
    await deps.ingest.intake.check_open()
    leaderboard = await find_leaderboard(deps, caller, slug)
    if index:
        # The client counts timed cases from 0. All are profiled, but the requested one must exist.
        published = await deps.ingest.intake.published(slug)
        submissions.check_case(int(index.removeprefix("-")) + 1, "profile", published)
    gpu = deps.profiler_gpu or leaderboard.gpus[0]
    submission = SubmissionRequest(file.name, file.data, slug, "profile", (gpu,))
    receipts = await deps.ingest.intake.submit(Upload(caller, submission, "popcorn", None))
    return receipts.submissions[0].number


def _parse_index(text: str) -> str:
    """Return the suffix of a job id for this case, "" for all cases."""
    if text and not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise Refused("bad_query", f"benchmark_index must be 0 to 999, not {text[:20]!r}", "index")
    return f"-{int(text)}" if text else ""


def _parse_job_id(job_id: str) -> tuple[int, int | None]:
    """Return the submission and the case index of a job id."""
    match = _JOB.match(job_id)
    if match is None:
        raise Refused("unknown_submission", f"there is no job {job_id[:40]!r}", "job_id")
    return int(match[1]), None if match[2] is None else int(match[2])


def _job_response(submission: FullSubmission, case_index: int | None) -> response_models.ProfileJob:
    status, queue = job_status(submission), runner_queue(queue_of(submission))
    case_indexes = [index for index in files_by_case(submission) if case_index in (None, index)]
    base = f"/jobs/{submission.number}/artifacts"
    is_over = status.status == "succeeded"
    return {
        "status": STATUSES.get(status.status, "failed"),
        "queue_position": None if queue is None else queue["queued_jobs"] + 1,
        "error": status.error,
        "artifacts": [
            {"name": archive_name(submission.number, index), "url": f"{base}/{index}"}
            for index in (case_indexes if is_over else ())
        ],
    }


async def _load_archive(deps: Dependencies, submission: FullSubmission, index: int) -> bytes:
    files = files_by_case(submission)[index]
    try:
        contents = {file.name: await deps.blobs.get(file.digest) for file in files}
    except BlobNotFound as missing:
        raise Refused(
            "not_found", f"the profile is no longer available: {missing}", "index"
        ) from missing
    return build_archive(files, contents)
