"""Routes for one's own submissions, and for joining closed leaderboards."""

import contextlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import Field

from ingest.access.callers import Caller
from ingest.http.auth import client_address
from ingest.popcorn import response_models
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
    own_reader,
    page_parameters,
    parse_number,
    parse_page,
)
from ingest.popcorn.results import stage_runs
from shared.api.submissions import FullSubmission, SubmissionLine
from shared.blobs import BlobNotFound

LIMIT, LIMIT_MAX, OFFSET_MAX = 50, 100, 10_000
CODE_LENGTH_MAX = 200


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
