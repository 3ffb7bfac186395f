"""Submissions of the client: accepted and polled, or followed in one stream.

The stream is a view of a durable job; a lost one changes nothing. The client decodes chunk by
chunk, so everything is ASCII; it expects one `event:` and one `data:` line that end with two line
feeds.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from ingest.http.addresses import client_address
from ingest.http.middleware import idempotency_key
from ingest.http.responses import receipt_headers
from ingest.identity.caller import Caller, check_problem
from ingest.identity.scopes import SCOPE_OF_MODE
from ingest.popcorn.conversions import (
    MODE_OF_PUBLIC,
    instant,
    job_status,
    queue_response,
    terminal_text,
)
from ingest.popcorn.dependencies import (
    PROFILE_FIELDS,
    Dependencies,
    ProfileOptions,
    leaderboard_gpus,
    parse_profile_options,
    read_upload,
    upload_form,
)
from ingest.popcorn.response_models import (
    AcceptedSubmission,
    FullResult,
    PublicMode,
    QuotaLeft,
    StreamPayload,
)
from ingest.popcorn.results import (
    TRACE_BYTES_MAX,
    files_by_case,
    full_result,
    profile_result,
    render_report,
)
from ingest.reads.limits import StreamLimiter
from ingest.submissions.resolution import Upload
from shared.api.submissions import FullSubmission, Receipt, SubmissionReceipts, SubmissionRequest
from shared.blobs import BlobNotFound
from shared.errors import Failed, Refused
from shared.http import STOPPING, DocumentedRoute, LiveResponse, TypedResponse

STATUS_S = 10.0
RETRY_PAUSE_S = 0.5
# The client gives up after 3600 s; the stream ends before that.
STREAM_S_MAX = 3500.0
# Without a charset, which the client does not expect.
EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
LOOK_S_MAX = 2.0
STREAM_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def encode_frame(event: str, data: StreamPayload) -> bytes:
    r"""Encode one event.

    >>> encode_frame("status", {"message": "\u00e9\n"})
    b'event: status\ndata: {"message":"\\u00e9\\n"}\n\n'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"event: {event}\ndata: {text}\n\n".encode("ascii")


class SubmissionTarget(NamedTuple):
    """Where to submit a file: the client's names, unchanged; the fields are those of a profile."""

    leaderboard: str
    gpu: str
    mode: str
    has_profile_fields: bool = False


class TakenSubmission(NamedTuple):
    """A submission that is in the log."""

    caller: Caller
    receipts: SubmissionReceipts
    mode: str
    options: ProfileOptions

    @property
    def receipt(self) -> Receipt:
        """Return the receipt of the only GPU type."""
        return self.receipts.submissions[0]


async def follow_submission(
    deps: Dependencies, taken: TakenSubmission, base: str, stopping: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a submission; the last one is always `result` or `error`.

    `base` is the base URL of this platform, and `stopping` is set when this process stops.
    """
    number, caller, started_at = taken.receipt.number, taken.caller, time.monotonic()
    submission: FullSubmission | None = None
    ended = asyncio.create_task(stopping.wait())
    try:
        yield _status_frame(started_at, f"Submission {number} is accepted")
        if taken.receipt.warning:
            yield _status_frame(started_at, terminal_text(taken.receipt.warning))
        if taken.receipts.licence_notice:
            yield _status_frame(started_at, terminal_text(taken.receipts.licence_notice))
        while time.monotonic() - started_at < STREAM_S_MAX and not ended.done():
            after = -1 if submission is None else submission.version
            read = asyncio.create_task(_read_update(deps, number, caller, after))
            try:
                # Send a status even while the read side is unavailable.
                while not await _any_finished(read, ended):
                    yield _status_frame(started_at, _status_message(number, submission))
                update = read.result() if read.done() else None
            finally:
                read.cancel()
            if update is not None and update.is_over:
                yield await _final_frame(deps, update, base, taken.options)
                return
            submission = update or submission
            yield _status_frame(started_at, _status_message(number, submission))
        command = f"submissions show {number}"
        message = f"submission {number} is still running: check it later with {command}"
        yield _error_frame(message, 504, "stream_over")
    except Refused as refused:
        yield _error_frame(terminal_text(str(refused)), 404, refused.code)
    except Failed as failed:
        yield _error_frame(terminal_text(str(failed)), 503, "unavailable")
    finally:
        ended.cancel()


async def _any_finished(*tasks: "asyncio.Task[Any]") -> bool:
    """Return whether one of the tasks finishes before the next status is due."""
    finished, _ = await asyncio.wait(tasks, timeout=STATUS_S, return_when=asyncio.FIRST_COMPLETED)
    return bool(finished)


async def _read_update(
    deps: Dependencies, number: int, caller: Caller, after: int
) -> FullSubmission | None:
    """Return the submission once it changed or the status interval is over."""
    wait_s = 0 if after < 0 else STATUS_S
    try:
        submission = await deps.read_client.submission(number, caller.reader, after, wait_s)
    except Failed:
        submission = None
    if submission is None:
        await asyncio.sleep(RETRY_PAUSE_S)
    return submission


def _status_frame(started_at: float, message: str) -> bytes:
    elapsed = round(time.monotonic() - started_at, 3)
    return encode_frame(
        "status", {"status": "processing", "elapsed_time": elapsed, "message": message}
    )


def _status_message(number: int, submission: FullSubmission | None) -> str:
    if submission is None:
        return f"Submission {number} is on its way"
    status = job_status(submission)
    more = f": {status.more}" if status.more else ""
    word = "queued" if status.status == "pending" else status.status
    return f"Submission {number} is {word} on {submission.gpu}{more}"


def _error_frame(detail: str, status: int, code: str) -> bytes:
    return encode_frame(
        "error", {"status": "error", "detail": detail, "status_code": status, "code": code}
    )


async def _final_frame(
    deps: Dependencies, submission: FullSubmission, base: str, options: ProfileOptions
) -> bytes:
    """Return the last event; anything but success is an error that the client prints."""
    status = job_status(submission)
    if status.status != "succeeded":
        detail, code = status.error or status.status, submission.code or status.status
        return _error_frame(detail, 422, code)
    if submission.mode == "profile":
        result = await _profile_result(deps, submission, base, options)
    else:
        result = full_result(submission)
    return encode_frame(
        "result",
        {
            "status": "success",
            "submission_id": submission.number,
            "results": [result],
            "reports": [render_report(submission)],
        },
    )


async def _profile_result(
    deps: Dependencies, submission: FullSubmission, base: str, options: ProfileOptions
) -> FullResult:
    """Return the result of a profile, with the files of as many cases as fit."""
    contents: dict[str, bytes] = {}
    links: dict[int, str] = {}
    bytes_left = TRACE_BYTES_MAX
    for index, files in files_by_case(submission).items():
        size = sum(file.bytes for file in files)
        if size > bytes_left:
            links[index] = f"{base}/jobs/{submission.number}/artifacts/{index}"
            continue
        bytes_left -= size
        for file in files:
            try:
                contents[file.name] = await deps.blobs.get(file.digest)
            except BlobNotFound:
                contents[file.name] = b"this file is no longer available\n"
    return profile_result(submission, contents, links, options)


def add_submission_route(router: APIRouter, deps: Dependencies) -> None:
    """The route that answers at once; the client polls for the rest."""

    @router.post(
        "/submission/{leaderboard}/{gpu}/{mode}", status_code=202, openapi_extra=upload_form()
    )
    async def submit(
        leaderboard: str, gpu: str, mode: str, request: Request, response: Response
    ) -> AcceptedSubmission:
        """Submit a file; the response comes after it is in the log."""
        taken = await submit_file(deps, request, SubmissionTarget(leaderboard, gpu, mode))
        response.headers.update(receipt_headers(taken.receipts))
        return await accepted_response(deps, taken)


class ModeRoute(DocumentedRoute):
    """A route of three segments that matches only if the last one is a mode.

    It would shadow every other POST with three segments, so it is added last.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request matches."""
        match, child = super().matches(scope)
        mode = child.get("path_params", {}).get("mode", "")
        is_ours = scope["method"] == "POST" and mode.lower() in MODE_OF_PUBLIC
        return (match, child) if is_ours else (Match.NONE, {})


class EventStreamResponse(LiveResponse):
    """An event stream that sends its own last event when the process stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; Source: the ASGI specification."""
        await super().__call__({**scope, STOPPING: asyncio.Event()}, receive, send)


@dataclass(frozen=True)
class SubmissionStreams:
    """Submits files, and follows each submission in the response until it ends."""

    deps: Dependencies
    streams: StreamLimiter

    async def start(self, request: Request, target: SubmissionTarget) -> EventStreamResponse:
        """Submit a file and return the stream of its submission. Raises `Refused` and `Failed`."""
        deps = self.deps
        client = (await deps.auth.caller(request)).account or client_address(request)
        self.streams.check(client)
        taken = await submit_file(deps, request, target)
        stopping = request.scope.get(STOPPING) or asyncio.Event()
        base = str(request.base_url).rstrip("/")
        frames = follow_submission(deps, taken, base, stopping)
        headers = EVENT_STREAM | receipt_headers(taken.receipts)
        return EventStreamResponse(self._count(frames, client), 200, headers)

    async def _count(
        self, frames: AsyncGenerator[bytes, None], client: str
    ) -> AsyncGenerator[bytes, None]:
        with self.streams.open_stream(client):
            async with aclosing(frames):
                async for frame in frames:
                    yield frame


def add_stream_routes(app: FastAPI, deps: Dependencies) -> None:
    """Add the routes whose response follows a submission; the one for all modes is the last."""
    streams = SubmissionStreams(
        deps, deps.streams or StreamLimiter(deps.read_client.reads, deps.auth)
    )

    async def profile(
        leaderboard: str, gpu: str, request: Request
    ) -> TypedResponse[StreamPayload] | EventStreamResponse:
        """Profile a file, with options of ncu, and follow it until it ends."""
        target = SubmissionTarget(leaderboard, gpu, "profile", has_profile_fields=True)
        return await streams.start(request, target)

    async def stream(
        leaderboard: str, gpu: str, mode: str, request: Request
    ) -> TypedResponse[StreamPayload] | EventStreamResponse:
        """Submit a file and follow it until it ends."""
        return await streams.start(request, SubmissionTarget(leaderboard, gpu, mode))

    common: dict[str, Any] = {
        "methods": ["POST"],
        "response_class": Response,
        "responses": STREAM_ANSWER,
    }
    app.router.routes += [
        DocumentedRoute(
            "/profile/{leaderboard}/{gpu}",
            profile,
            openapi_extra=upload_form(optional=PROFILE_FIELDS),
            **common,
        ),
        ModeRoute("/{leaderboard}/{gpu}/{mode}", stream, openapi_extra=upload_form(), **common),
    ]


async def submit_file(
    deps: Dependencies, request: Request, target: SubmissionTarget, operator: str = ""
) -> TakenSubmission:
    """Submit a file; refusals come in the order of the API contract. Raises `Refused` and `Failed`.

    With `operator`, an operator may submit after the deadline.
    """
    file = await read_upload(request)
    mode, slug = MODE_OF_PUBLIC.get(target.mode.lower()), target.leaderboard.lower()
    caller = await deps.auth.participant(SCOPE_OF_MODE[mode or "test"])(request)
    await deps.ingest.intake.check_open()
    if mode is None:
        known = ", ".join(MODE_OF_PUBLIC)
        raise Refused("unknown_mode", f"mode {target.mode!r} is not one of {known}", "mode")
    await leaderboard_gpus(deps, caller, slug)
    check_problem(caller, slug)
    if isinstance(file, Refused):
        raise file
    options = parse_profile_options(file.texts if target.has_profile_fields else {})
    submission = SubmissionRequest(
        file.name, file.data, slug, mode, (target.gpu,), **options.request_fields
    )
    upload = Upload(caller, submission, "popcorn", idempotency_key(request), operator)
    receipts = await deps.ingest.intake.submit(upload)
    return TakenSubmission(caller, receipts, target.mode.lower(), options)


async def accepted_response(deps: Dependencies, taken: TakenSubmission) -> AcceptedSubmission:
    """Return the response for an accepted submission (spec 5.3)."""
    receipt = taken.receipt
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            queue = await deps.read_client.queue(receipt.gpu)
    except (TimeoutError, Failed):
        queue = None
    quota: QuotaLeft = {}
    if receipt.quota is not None:
        quota = {
            "mode": cast("PublicMode", taken.mode),
            "used": receipt.quota.used,
            "remaining": receipt.quota.remaining,
            "max": receipt.quota.limit,
            "window_s": receipt.quota.window_s,
            "reset_at": instant(receipt.quota.reset_at),
            "concurrent": None,
            "concurrent_max": None,
        }
    return {
        "details": {"id": receipt.number, "job_status_id": receipt.number},
        "runner_queue": queue_response(queue) if queue else None,
        "status": "accepted",
        "queue": msgspec.to_builtins(queue) if queue else {},
        "quota": quota,
        "warning": receipt.warning,
        "licence_notice": taken.receipts.licence_notice,
    }
