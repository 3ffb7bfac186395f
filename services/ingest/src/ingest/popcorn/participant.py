"""Routes for participants: leaderboards, queues, rankings, one's own submissions, and invites."""

import contextlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from ingest.http.addresses import client_address
from ingest.identity.caller import Caller
from ingest.popcorn import response_models
from ingest.popcorn.conversions import (
    DESCRIPTION_LENGTH_MAX,
    GPU,
    instant,
    job_response,
    job_status,
    leaderboard_id,
    queue_response,
    runner_queue,
    seconds,
)
from ingest.popcorn.dependencies import (
    PROFILE_FIELDS,
    TEXT,
    Dependencies,
    PopcornRequest,
    UploadedFile,
    leaderboard_gpus,
    own_reader,
    page_parameters,
    parse_number,
    parse_page,
    parse_profile_options,
    read_upload,
    upload_form,
)
from ingest.popcorn.results import archive_name, build_archive, files_by_case, stage_runs
from ingest.submissions.resolution import Upload
from shared.api.leaderboards import Entry
from shared.api.submissions import FullSubmission, SubmissionLine, SubmissionRequest
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.source_files import unpack_files

STATES = ("active", "ended", "all")
DESCRIPTIONS_MAX = 1000
RANKING_MAX = 100
LIMIT, LIMIT_MAX, OFFSET_MAX = 50, 100, 10_000
CODE_LENGTH_MAX = 200
PROFILER_STATUSES: Mapping[str, Literal["queued", "running", "succeeded", "timed_out"]] = {
    "pending": "queued",
    "running": "running",
    "succeeded": "succeeded",
    "timed_out": "timed_out",
}
ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}


class About(NamedTuple):
    """The beginning of a problem's description, and its language."""

    description: str
    lang: Literal["py", "cu"]


@dataclass(frozen=True)
class Descriptions:
    """Descriptions of problems by manifest, cached."""

    blobs: BlobStore
    _cache: OrderedDict[str, About] = field(default_factory=OrderedDict)

    async def get(self, manifest: str) -> About:
        """Return the description in a manifest, empty if it is gone. Raises `Failed`."""
        if manifest in self._cache:
            self._cache.move_to_end(manifest)
            return self._cache[manifest]
        try:
            fields = json.loads(await self.blobs.get(manifest))
        except (BlobNotFound, ValueError):
            fields = {}
        if not isinstance(fields, dict):
            fields = {}
        description = fields.get("description")
        text = description.strip() if isinstance(description, str) else ""
        if len(text) > DESCRIPTION_LENGTH_MAX:
            text = f"{text[: DESCRIPTION_LENGTH_MAX - 3]}..."
        about = About(text, "cu" if fields.get("lang") == "cu" else "py")
        self._cache[manifest] = about
        if len(self._cache) > DESCRIPTIONS_MAX:
            self._cache.popitem(last=False)
        return about


def add_leaderboard_routes(router: APIRouter, deps: Dependencies) -> None:
    """The leaderboards and their rankings; closed ones exist for their members only."""
    descriptions = Descriptions(deps.blobs)

    @router.get("/leaderboards")
    async def leaderboards(
        request: Request, state: str = "active"
    ) -> list[response_models.LeaderboardItem]:
        """The leaderboards; one invalid element would make the client drop all."""
        if state not in STATES:
            raise Refused("bad_query", f"state must be one of {', '.join(STATES)}", "state")
        caller = await deps.auth.caller(request)
        at = deps.clock()
        items: list[response_models.LeaderboardItem] = []
        for problem in await deps.read_client.problems(caller.reader):
            is_over = problem.deadline_at is not None and problem.deadline_at <= at
            has_ended = is_over or problem.archived_at is not None
            if state != "all" and has_ended != (state == "ended"):
                continue
            about = await descriptions.get(problem.manifest)
            items.append(
                {
                    "id": leaderboard_id(problem.slug),
                    "name": problem.slug,
                    "title": problem.title,
                    "description": about.description,
                    "task": {"lang": about.lang},
                    "deadline": instant(problem.deadline_at),
                    "gpu_types": problem.gpus,
                    "visibility": problem.visibility,
                    "problem_version": problem.problem_version,
                    "state": "ended" if has_ended else "active",
                }
            )
        return items

    @router.get("/gpus/{leaderboard}")
    async def gpus(leaderboard: str, request: Request) -> list[str]:
        """The GPU types of a leaderboard, in display order."""
        caller = await deps.auth.caller(request)
        return await leaderboard_gpus(deps, caller, leaderboard.lower())

    _add_ranking_routes(router, deps)


def _add_ranking_routes(router: APIRouter, deps: Dependencies) -> None:
    @router.get("/runner_queue/{gpu}")
    async def queue_of(gpu: str) -> response_models.RunnerQueue:
        """The queue of a GPU type."""
        queue = await deps.read_client.queue(gpu) if GPU.match(gpu) else None
        if queue is None:
            raise Refused("not_found", f"there is no GPU type {gpu!r}", "gpu")
        return queue_response(queue)

    async def load_entries(
        request: Request, leaderboard: str, gpu: str, count_max: int | None = None
    ) -> tuple[str, list[Entry]]:
        """Return the GPU type with this name in any case, and the entries of the leaderboard."""
        caller, slug = await deps.auth.caller(request), leaderboard.lower()
        gpus = await leaderboard_gpus(deps, caller, slug)
        gpu_type = next((name for name in gpus if name.lower() == gpu.lower()), None)
        if gpu_type is None:
            message = f"GPU type {gpu!r} is not on this leaderboard: {', '.join(gpus)}"
            raise Refused("unknown_gpu", message, "gpu")
        entries = await deps.read_client.leaderboard(slug, gpu_type, caller.reader, count_max)
        return gpu_type, entries

    @router.get(
        "/submissions/{leaderboard}/{gpu}",
        openapi_extra={"parameters": page_parameters(RANKING_MAX, RANKING_MAX)},
    )
    async def ranking(
        leaderboard: str, gpu: str, request: Request
    ) -> list[response_models.RankingRow]:
        """The ranking of a leaderboard, best first."""
        limit, offset = parse_page(request, RANKING_MAX, RANKING_MAX)
        gpu_type, entries = await load_entries(request, leaderboard, gpu, offset + limit)
        return [
            {
                "submission_id": entry.number,
                "rank": entry.rank,
                "submission_name": f"submission-{entry.number}",
                "submission_time": instant(entry.received_at),
                "submission_score": seconds(entry.score_us),
                "leaderboard_name": leaderboard.lower(),
                "user_id": entry.participant_id,
                "user_name": entry.participant or entry.participant_id,
                "gpu_type": gpu_type,
            }
            for entry in entries[offset : offset + limit]
        ]

    @router.get("/submission_count/{leaderboard}/{gpu}")
    async def count(
        leaderboard: str, gpu: str, request: Request, user_id: str | None = None
    ) -> response_models.Count:
        """The number of entries on a leaderboard, in total or of one participant."""
        _, entries = await load_entries(request, leaderboard, gpu)
        return {"count": sum(user_id in (None, entry.participant_id) for entry in entries)}


def add_health_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes that tell whether this process works."""

    @router.get("/healthz")
    async def alive() -> response_models.Liveness:
        """Whether this process is alive, whatever its dependencies."""
        return {"status": "ok"}

    @router.get("/readyz")
    async def ready() -> response_models.Liveness:
        """Whether it can take traffic."""
        if problem := await deps.is_well():
            raise Failed(problem)
        return {"status": "ok"}


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
    code = ""
    if submission.source_digest:
        with contextlib.suppress(BlobNotFound):
            blob = await deps.blobs.get(submission.source_digest)
            # These routes know one file.
            code = unpack_files(submission.name, blob)[0].text
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
        "runner_queue": runner_queue(submission),
        "ranking": msgspec.to_builtins(submission.ranking),
        "queue": msgspec.to_builtins(submission.queue),
        "problem_version": submission.problem_version,
    }


def add_profiler_routes(router: APIRouter, deps: Dependencies) -> None:
    """The routes; a job belongs to its owner."""
    require_profile = deps.auth.participant("profile")
    reader = Annotated[Caller, Depends(own_reader(deps))]

    form = upload_form({"leaderboard": TEXT}, PROFILE_FIELDS)

    @router.post("/profile", openapi_extra=form)
    async def profile(request: Request) -> response_models.StartedProfile:
        """Profile a file on the configured GPU type."""
        file = await read_upload(request)
        caller = await require_profile(request)
        if isinstance(file, Refused):
            raise file
        return {"job_id": str(await _submit(deps, caller, file))}

    @router.get("/jobs/{job_id}")
    async def job(job_id: str, caller: reader) -> response_models.ProfileJob:
        """The status of a job, and its artefacts."""
        number = parse_number(job_id)
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
            ],
        }

    @router.get("/jobs/{job_id}/artifacts/{index}", response_class=Response, responses=ZIP)
    async def artifact(job_id: str, index: str, caller: reader) -> Response:
        """The profile of one case, as a zip."""
        number = parse_number(job_id)
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


async def _submit(deps: Dependencies, caller: Caller, file: UploadedFile) -> int:
    slug = file.texts.get("leaderboard", "").lower()
    options = parse_profile_options(file.texts)
    await deps.ingest.intake.check_open()
    gpus = await leaderboard_gpus(deps, caller, slug)
    gpu = deps.profiler_gpu or gpus[0]
    submission = SubmissionRequest(
        file.name, file.data, slug, "profile", (gpu,), **options.request_fields
    )
    receipts = await deps.ingest.intake.submit(Upload(caller, submission, "popcorn", None))
    return receipts.submissions[0].number
