"""Routes for one's own submissions, and for joining closed leaderboards."""

import msgspec
from fastapi import APIRouter, Request
from pydantic import Field

from ingest.access.callers import Caller
from ingest.http.auth import client_address
from ingest.popcorn import dependencies, response_models
from ingest.popcorn.conversions import instant, leaderboard_id, seconds
from ingest.popcorn.dependencies import (
    TAG,
    Dependencies,
    PopcornRequest,
    parse_bounded,
    parse_number,
    retry_while_unavailable,
)
from ingest.popcorn.job_status import job_response, job_status, queue_of, runner_queue
from ingest.popcorn.results import stage_runs
from shared.api.submissions import FullSubmission, SubmissionLine
from shared.blobs import BlobNotFound
from shared.response_types import DocumentedRoute

LIMIT_MAX = 100
LIMIT = 50
OFFSET_MAX = 10_000
CODE_LENGTH_MAX = 200


class PopcornJoinRequest(PopcornRequest):
    """The code of an invite."""

    code: str = Field(min_length=1, max_length=CODE_LENGTH_MAX)


def own_submissions_router(deps: Dependencies) -> APIRouter:
    """The routes of participants."""
    router = APIRouter(prefix="/user", tags=[TAG], route_class=DocumentedRoute)
    _read_routes(router, deps)
    _write_routes(router, deps)
    return router


def _read_routes(router: APIRouter, deps: Dependencies) -> None:
    require_reader = retry_while_unavailable(deps.auth.participant("read:own"))
    leaderboard = {"name": "leaderboard", "in": "query", "schema": dependencies.TEXT}
    page = dependencies.page_parameters(LIMIT, LIMIT_MAX, OFFSET_MAX)

    @router.get(
        "/submissions",
        openapi_extra={"parameters": [leaderboard, *page]},
    )
    async def submissions(request: Request) -> list[response_models.OwnSubmission]:
        """One's submissions, newest first."""
        caller = await require_reader(request)
        limit = parse_bounded(request, "limit", LIMIT, (1, LIMIT_MAX))
        offset = parse_bounded(request, "offset", 0, (0, OFFSET_MAX))
        slug = request.query_params.get("leaderboard", "").lower() or None
        summaries = await deps.read_client.list_own(caller, slug, limit, offset)
        return [_list_item(summary) for summary in summaries]

    @router.get("/submissions/{number}")
    async def submission(number: str, request: Request) -> response_models.PolledSubmission:
        """One submission as it is now; the client polls it every five seconds."""
        caller = await require_reader(request)
        submission = await deps.read_client.load_own(parse_number(number), caller)
        return submission_response(submission, await load_source(deps, submission))


def _write_routes(router: APIRouter, deps: Dependencies) -> None:
    require_owner = deps.auth.participant("delete:own")
    require_member = deps.auth.participant("join")

    @router.delete("/submissions/{number}")
    async def delete(number: str, request: Request) -> response_models.DeletedSubmission:
        """Take a submission off its leaderboard; one that still runs is cancelled."""
        caller: Caller = await require_owner(request)
        submission = await deps.read_client.load_own(parse_number(number), caller)
        await deps.ingest.submissions.withdraw(submission.number, caller, "deleted by its owner")
        await deps.read_client.wait_until_deleted(submission.number)
        return {"status": "ok", "submission_id": submission.number}

    @router.post("/join")
    async def join(request: Request, body: PopcornJoinRequest) -> response_models.Member:
        """Join closed leaderboards with an invite."""
        caller: Caller = await require_member(request)
        boards = await deps.ingest.invites.join(caller.id, body.code, client_address(request))
        return {"status": "ok", "leaderboards": list(boards)}


def _list_item(summary: SubmissionLine) -> response_models.OwnSubmission:
    score = seconds(summary.score_us) if summary.is_eligible and summary.mode == "ranked" else None
    return {
        "id": summary.number,
        "leaderboard_name": summary.problem,
        "file_name": summary.name or "submission",
        "submission_time": instant(summary.received_at),
        "done": summary.state == "finished",
        "runs": [{"gpu_type": summary.gpu, "score": score}],
    }


def submission_response(submission: FullSubmission, code: str) -> response_models.PolledSubmission:
    """Return the response for a submission (spec 5.4), all of one moment."""
    return {
        "id": submission.number,
        "leaderboard_id": leaderboard_id(submission.problem),
        "leaderboard_name": submission.problem,
        "file_name": submission.name or "submission",
        "user_id": submission.participant_id,
        "submission_time": instant(submission.received_at),
        "done": job_status(submission).is_done,
        "code": code,
        "runs": stage_runs(submission),
        "job": job_response(submission, is_long=True),
        "runner_queue": runner_queue(queue_of(submission)),
        "ranking": msgspec.to_builtins(submission.ranking),
        "queue": msgspec.to_builtins(submission.queue),
        "problem_version": submission.problem_version,
    }


async def load_source(deps: Dependencies, submission: FullSubmission) -> str:
    """Return the source of a submission, "" if it is gone. Raises `Failed`."""
    if not submission.source_digest:
        return ""
    try:
        return (await deps.blobs.get(submission.source_digest)).decode("utf-8", "replace")
    except BlobNotFound:
        return ""
