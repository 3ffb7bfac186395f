"""Routes for one's own submissions and profiles, and for joining closed leaderboards."""

import contextlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from ingest.access.callers import Caller
from ingest.http.auth import client_address
from ingest.popcorn import multipart, response_models
from ingest.popcorn.conversions import (
    instant,
    job_response,
    job_status,
    leaderboard_id,
    runner_queue,
    seconds,
)
from ingest.popcorn.dependencies import (
    TEXT,
    Dependencies,
    PopcornRequest,
    leaderboard_gpus,
    own_reader,
    page_parameters,
    parse_number,
    parse_page,
    upload_form,
)
from ingest.popcorn.results import archive_name, build_archive, files_by_case, stage_runs
from ingest.submissions.intake import Upload
from ingest.submissions.rules import check_case
from shared.api.submissions import FullSubmission, SubmissionLine, SubmissionRequest
from shared.blobs import BlobNotFound
from shared.errors import Refused

LIMIT, LIMIT_MAX, OFFSET_MAX = 50, 100, 10_000
CODE_LENGTH_MAX = 200
_JOB = re.compile(r"(\d{1,15})(?:-(\d{1,3}))?\Z")
PROFILER_STATUSES: Mapping[str, Literal["queued", "running", "succeeded", "timed_out"]] = {
    "pending": "queued",
    "running": "running",
    "succeeded": "succeeded",
    "timed_out": "timed_out",
}
INDEX: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9]{0,3}$"}
ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}


class PopcornJoinRequest(PopcornRequest):
    """The code of an invite."""

    code: str = Field(min_length=1, max_length=CODE_LENGTH_MAX)


def add_own_submission_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes of participants."""
    reader = Annotated[Caller, Depends(own_reader(deps))]
    leaderboard = {"name": "leaderboard", "in": "query", "schema": TEXT}
    page = page_parameters(LIMIT, LIMIT_MAX, OFFSET_MAX)

    @router.get("/user/submissions", openapi_extra={"parameters": [leaderboard, *page]})
    async def submissions(request: Request, caller: reader) -> list[response_models.OwnSubmission]:
        """One's submissions, newest first."""
        limit, offset = parse_page(request, LIMIT, LIMIT_MAX, OFFSET_MAX)
        slug = request.query_params.get("leaderboard", "").lower() or None
        return [
            _list_item(line)
            for line in await deps.read_client.list_own(caller, slug, limit, offset)
        ]

    @router.get("/user/submissions/{number}")
    async def submission(number: str, caller: reader) -> response_models.PolledSubmission:
        """One submission as it is now; the client polls it every five seconds."""
        submission = await deps.read_client.load_own(parse_number(number), caller)
        return await submission_response(deps, submission)

    @router.delete("/user/submissions/{number}")
    async def delete(
        number: str, caller: Annotated[Caller, Depends(deps.auth.participant("delete:own"))]
    ) -> response_models.DeletedSubmission:
        """Take a submission off its leaderboard; one that still runs is cancelled."""
        submission = await deps.read_client.load_own(parse_number(number), caller)
        await deps.ingest.submissions.withdraw(submission.number, caller, "deleted by its owner")
        await deps.read_client.wait_until(submission.number, is_deleted=True)
        return {"status": "ok", "submission_id": submission.number}

    @router.post("/user/join")
    async def join(
        request: Request,
        body: PopcornJoinRequest,
        caller: Annotated[Caller, Depends(deps.auth.participant("join"))],
    ) -> response_models.Member:
        """Join closed leaderboards with an invite."""
        boards = await deps.ingest.invites.join(caller.id, body.code, client_address(request))
        return {"status": "ok", "leaderboards": list(boards)}


def _list_item(line: SubmissionLine) -> response_models.OwnSubmission:
    score = seconds(line.score_us) if line.is_eligible and line.mode == "ranked" else None
    return {
        "id": line.number,
        "leaderboard_name": line.problem,
        "file_name": line.name or "submission",
        "submission_time": instant(line.received_at),
        "done": line.state == "finished",
        "runs": [{"gpu_type": line.gpu, "score": score}],
    }


async def submission_response(
    deps: Dependencies, submission: FullSubmission
) -> response_models.PolledSubmission:
    """Return the response for a submission (spec 5.4), all of one moment; "" for a lost source.

    Raises `Failed`.
    """
    code = b""
    if submission.source_digest:
        with contextlib.suppress(BlobNotFound):
            code = await deps.blobs.get(submission.source_digest)
    return {
        "id": submission.number,
        "leaderboard_id": leaderboard_id(submission.problem),
        "leaderboard_name": submission.problem,
        "file_name": submission.name or "submission",
        "user_id": submission.participant_id,
        "submission_time": instant(submission.received_at),
        "done": job_status(submission).is_done,
        "code": code.decode("utf-8", "replace"),
        "runs": stage_runs(submission),
        "job": job_response(submission, is_long=True),
        "runner_queue": runner_queue(submission),
        "ranking": msgspec.to_builtins(submission.ranking),
        "queue": msgspec.to_builtins(submission.queue),
        "problem_version": submission.problem_version,
    }


def add_profiler_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes; a job belongs to its owner."""
    require_profile = deps.auth.participant("profile")
    reader = Annotated[Caller, Depends(own_reader(deps))]

    form = upload_form({"leaderboard": TEXT}, {"benchmark_index": INDEX})

    @router.post("/profile", openapi_extra=form)
    async def profile(request: Request) -> response_models.StartedProfile:
        """Profile a file on the configured GPU type."""
        file = await multipart.read_upload(request)
        caller = await require_profile(request)
        if isinstance(file, Refused):
            raise file
        index = file.texts.get("benchmark_index", "")
        if index and not (index.isascii() and index.isdigit() and len(index) <= 3):
            message = f"benchmark_index must be 0 to 999, not {index[:20]!r}"
            raise Refused("bad_query", message, "index")
        number = await _submit(deps, caller, file, int(index) if index else None)
        return {"job_id": f"{number}-{int(index)}" if index else str(number)}

    @router.get("/jobs/{job_id}")
    async def job(job_id: str, caller: reader) -> response_models.ProfileJob:
        """The status of a job, and its artefacts."""
        number, case_index = _parse_job_id(job_id)
        submission = await deps.read_client.load_own(number, caller)
        status, queue = job_status(submission), runner_queue(submission)
        indexes = files_by_case(submission) if status.status == "succeeded" else ()
        return {
            "status": PROFILER_STATUSES.get(status.status, "failed"),
            "queue_position": None if queue is None else queue["queued_jobs"] + 1,
            "error": status.error,
            "artifacts": [
                {"name": archive_name(number, index), "url": f"/jobs/{number}/artifacts/{index}"}
                for index in indexes
                if case_index in (None, index)
            ],
        }

    @router.get("/jobs/{job_id}/artifacts/{index}", response_class=Response, responses=ZIP)
    async def artifact(job_id: str, index: str, caller: reader) -> Response:
        """The profile of one case, as a zip."""
        number, _ = _parse_job_id(job_id)
        submission = await deps.read_client.load_own(number, caller)
        files = {str(case): files for case, files in files_by_case(submission).items()}.get(index)
        if files is None:
            raise Refused("not_found", f"job {job_id} has no artefact {index[:20]!r}", "index")
        try:
            contents = {file.name: await deps.blobs.get(file.digest) for file in files}
        except BlobNotFound as error:
            message = f"the profile is no longer available: {error}"
            raise Refused("not_found", message, "index") from error
        disposition = f'attachment; filename="{archive_name(number, int(index))}"'
        headers = {"Content-Disposition": disposition}
        archive = build_archive(files, contents)
        return Response(archive, media_type="application/zip", headers=headers)


async def _submit(
    deps: Dependencies, caller: Caller, file: multipart.Upload, index: int | None
) -> int:
    slug = file.texts.get("leaderboard", "").lower()
    await deps.ingest.intake.check_open()
    gpus = await leaderboard_gpus(deps, caller, slug)
    if index is not None:
        # The client counts timed cases from 0. All are profiled, but the requested one must exist.
        published = await deps.ingest.intake.published(slug)
        check_case(index + 1, "profile", published)
    gpu = deps.profiler_gpu or gpus[0]
    submission = SubmissionRequest(file.name, file.data, slug, "profile", (gpu,))
    receipts = await deps.ingest.intake.submit(Upload(caller, submission, "popcorn", None))
    return receipts.submissions[0].number


def _parse_job_id(job_id: str) -> tuple[int, int | None]:
    """Return the submission and the case index of a job id. Raises `Refused`."""
    match = _JOB.match(job_id)
    if match is None:
        raise Refused("unknown_submission", f"there is no job {job_id[:40]!r}", "job_id")
    return int(match[1]), None if match[2] is None else int(match[2])
