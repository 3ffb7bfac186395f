"""Tools that submit a kernel, follow it and cancel it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Annotated, Literal

from msgspec import Meta

from shared.api.submissions import Balance, CancelledSubmission, FullSubmission, SubmissionRequest
from shared.clock import new_id
from shared.presentation.report_parts import submission_progress
from shared.presentation.responses import JsonObject
from warpboard.mcp.context import (
    Gpus,
    KernelPath,
    Language,
    Number,
    Slug,
    Source,
    Tool,
    ToolContext,
    ToolRequest,
    ToolResponse,
    load_kernel,
)
from warpboard.service.ports import StreamMessage, Unavailable
from warpboard.service.submission_logs import END, event_line, notice_progress
from warpboard.service.waiting import retry_until_available

FOLLOW_S_MAX = 50
Mode = Annotated[
    Literal["test", "benchmark", "profile", "ranked"],
    Meta(
        description="test: is it right; benchmark: how fast; profile: where the time goes; "
        "ranked: counts for the leaderboard."
    ),
]
REPEAT_S_MAX = 4.0
PAUSE_S = 0.5
EVENTS_MAX = 100


class SubmitRequest(ToolRequest, frozen=True, kw_only=True):
    """A kernel for a problem."""

    problem: Slug
    source: Source = None
    path: KernelPath = None
    language: Language = "python"
    mode: Mode = "test"
    gpus: Annotated[
        Gpus,
        Meta(description="One submission each; none means all that the file's directives name."),
    ] = []


class FollowRequest(ToolRequest, frozen=True, kw_only=True):
    """The submission, the place to continue from, and how long to wait."""

    number: Number
    after: Annotated[
        int, Meta(ge=0, description="Only events after this place: next_after of the last call.")
    ] = 0
    wait_s: Annotated[
        float,
        Meta(
            ge=0, le=FOLLOW_S_MAX, description="How long to wait for its end, at most 50 seconds."
        ),
    ] = 25.0


class CancelRequest(ToolRequest, frozen=True, kw_only=True):
    """The submission to cancel, and the reason."""

    number: Number
    reason: Annotated[str, Meta(max_length=500, description="For the record.")] = ""


class SubmitReceipt(ToolResponse, frozen=True, kw_only=True):
    """An accepted submission, and what is left of the quota that it used."""

    number: int
    gpu: str
    quota: Balance | None = None


class SubmitResult(ToolResponse, frozen=True, kw_only=True):
    """The numbers of the new submissions."""

    problem: str
    mode: str
    submissions: list[SubmitReceipt]
    next: str


class FollowedEvent(ToolResponse, frozen=True, kw_only=True):
    """An event of a submission, and its place in the history."""

    place: int
    type: str
    line: str


class FollowResult(ToolResponse, frozen=True, kw_only=True):
    """What happened since `after`, and where the submission is now."""

    number: int
    state: str
    is_over: bool
    news: str
    events: list[FollowedEvent]
    next_after: int
    next: str
    verdict: str | None = None
    outcome: str | None = None
    cut: list[str] = []


class CancelResult(ToolResponse, frozen=True, kw_only=True):
    """A cancelled submission."""

    number: int
    state: str
    next: str


def submission_tools() -> tuple[Tool, ...]:
    """Return the tools that submit a kernel, follow it and cancel it."""
    return (
        Tool(
            submit,
            SubmitRequest,
            SubmitResult,
            "Submit a kernel and get its number at once; call follow next. Use mode test until "
            "it is correct, then benchmark, and ranked only when it beats your best.",
            is_reading=False,
        ),
        Tool(
            follow,
            FollowRequest,
            FollowResult,
            "Wait for a submission to end, at most wait_s seconds, and get what happened to it "
            "since `after`; call it again with next_after until is_over.",
            is_slow=True,
        ),
        Tool(
            cancel,
            CancelRequest,
            CancelResult,
            "Cancel your submission; its quota is refunded if no run had begun.",
            is_reading=False,
        ),
    )


async def submit(context: ToolContext, tool_request: SubmitRequest) -> SubmitResult:
    """Submit a kernel once, however often the request is sent. Raises Refused and Failed."""
    name, source = load_kernel(
        context, tool_request.source, tool_request.path, tool_request.language
    )
    submission = SubmissionRequest(
        name, source, tool_request.problem, tool_request.mode, tuple(tool_request.gpus)
    )
    key = new_id()
    answer = await retry_until_available(
        lambda: context.api.submit(submission, key), REPEAT_S_MAX, _ignore_trouble
    )
    receipts = answer.value.submissions
    numbers = ", ".join(str(receipt.number) for receipt in receipts)
    return SubmitResult(
        problem=tool_request.problem,
        mode=tool_request.mode,
        submissions=[
            SubmitReceipt(number=receipt.number, gpu=receipt.gpu, quota=receipt.quota)
            for receipt in receipts
        ],
        next=f"call follow with number {numbers} until is_over, then read_result",
    )


def _ignore_trouble(trouble: str) -> None:
    """Ignore failed attempts, which last only seconds."""


@dataclass
class EventBatch:
    """The events of a stream since a place."""

    place: int
    events: list[FollowedEvent] = field(default_factory=list)
    is_end: bool = False
    at: float = field(default_factory=time.monotonic)

    @property
    def is_full(self) -> bool:
        """Whether no further event fits."""
        return len(self.events) >= EVENTS_MAX

    def take(self, place: int, event: JsonObject) -> None:
        """Add a new event of the history; if there is no room, the next call returns it."""
        if place <= self.place or self.is_full:
            return
        self.place = place
        kind, line = str(event.get("type", "")), event_line(event, UTC)
        self.events.append(FollowedEvent(place=place, type=kind, line=line))


async def follow(context: ToolContext, request: FollowRequest) -> FollowResult:
    """Return what happened since a place, after a bounded wait for the end. Raises Refused and
    Failed.
    """
    batch = EventBatch(request.after)
    if request.wait_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(request.wait_s):
                await _listen(context, request, batch)
    if not batch.events:
        for event in await context.api.history(request.number):
            batch.take(int(event.get("id", 0)), event)
    submission = (await context.api.get(FullSubmission, "submissions", request.number)).value
    return FollowResult(
        number=request.number,
        state=submission.state,
        is_over=submission.is_over,
        news=submission_progress(submission).whole,
        events=batch.events,
        next_after=batch.place,
        next=_next_step(submission, batch.place),
        verdict=submission.verdict,
        outcome=submission.outcome,
        cut=[f"events after place {batch.place}: call again"] if batch.is_full else [],
    )


def _next_step(submission: FullSubmission, place: int) -> str:
    if submission.is_over:
        return f"call read_result with number {submission.number}"
    return f"call follow again with number {submission.number} and after {place}"


async def _listen(context: ToolContext, request: FollowRequest, batch: EventBatch) -> None:
    """Collect events until the end, over reconnections, and report progress.

    Raises Refused, Failed, and Unavailable if the platform is silent for too long.
    """
    began = time.monotonic()
    while not batch.is_end:
        try:
            async for message in context.api.events(request.number, batch.place):
                batch.at = time.monotonic()
                if sentence := _collect(message, batch):
                    await context.told(batch.at - began, request.wait_s, sentence)
        except Unavailable as trouble:
            if time.monotonic() - batch.at > REPEAT_S_MAX:
                raise
            await context.told(time.monotonic() - began, request.wait_s, str(trouble))
        if not batch.is_end:
            await asyncio.sleep(PAUSE_S)


def _collect(message: StreamMessage, batch: EventBatch) -> str:
    """Add a message of the stream to the batch; return it as a sentence, "" if it says nothing."""
    if message.kind == END:
        batch.is_end = True
        return ""
    if notice := notice_progress(message.kind, message.data):
        return notice.whole
    if message.place is None:
        return ""
    batch.take(message.place, message.data)
    return event_line(message.data, UTC)


async def cancel(context: ToolContext, request: CancelRequest) -> CancelResult:
    """Cancel a submission. Raises Refused and Failed."""
    body = {"reason": request.reason}
    answer = await context.api.act(
        CancelledSubmission, "POST", "submissions", request.number, "cancel", body=body
    )
    return CancelResult(
        number=request.number,
        state=answer.value.state,
        next=f"call follow with number {request.number}: it is over within seconds",
    )
