"""Tools that run a kernel: on this machine, or as a submission to follow and cancel."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from harness.ranking_rules import score_us
from harness.vocabulary import MODES, SUBMISSION_MODES, SubmissionMode
from shared.api.fields import JsonObject, parse_response
from shared.api.problems import FullProblem
from shared.api.submissions import (
    CancelledSubmission,
    FullSubmission,
    Progress,
    SubmissionRequest,
)
from shared.api_client import StreamMessage, Unavailable
from shared.checks.problem_files import ProblemFiles, compile_files
from shared.clock import new_id
from shared.errors import Refused
from shared.licences import OwnLicence
from shared.presentation.outcome import Run
from shared.presentation.report_parts import run_progress, submission_progress
from shared.problems.submission_file import NUMBER_MAX, parse_precision
from warpboard.api import Api
from warpboard.mcp.context import (
    TEXT_CHARS,
    Gpus,
    KernelPath,
    Language,
    Number,
    OtherFiles,
    Slug,
    Source,
    ToolContext,
    ToolResult,
    load_kernel,
    tail,
)
from warpboard.mcp.problems import load_problem
from warpboard.mcp.results import order_cases
from warpboard.service.answers import (
    END,
    event_line,
    local_lines,
    notice_progress,
    retry_until_available,
    starter_files,
    with_roofline,
    with_speedups,
)

FOLLOW_S_MAX = 50
Mode = Annotated[
    SubmissionMode,
    Field(description="; ".join(f"{mode}: {MODES[mode].summary}" for mode in SUBMISSION_MODES)),
]
REPEAT_S_MAX = 4.0
PAUSE_S = 0.5
EVENTS_MAX = 100
RUN_S_MAX = 50
REFERENCES = ("reference.py", "reference.cuh")
FILES_MAX = 64


class LocalRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a run on this machine ended; it does not count."""

    result: Run
    score_us: float | None
    log: str


class FollowedSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """What happened since `after`, and where the submission is now."""

    number: int
    state: str
    is_over: bool
    news: str
    events: list[str]
    next_after: int
    verdict: str | None
    outcome: str | None


async def submit(
    context: ToolContext,
    *,
    problem: Slug,
    source: Source = None,
    path: KernelPath = None,
    language: Language = "python",
    others: OtherFiles = None,
    mode: Mode = "test",
    gpus: Annotated[
        Gpus,
        Field(description="One submission each; none means all that the file's directives name."),
    ] = (),
    runner: Annotated[
        str,
        Field(
            pattern="^[A-Za-z0-9_-]{0,64}$",
            description="The launcher that starts an agent for it; none means any agent.",
        ),
    ] = "",
    precision: Annotated[
        str,
        Field(description="With mode benchmark: end at this precision, such as 2%; none means 5%."),
    ] = "",
    parent: Annotated[
        int, Field(ge=0, le=NUMBER_MAX, description="The submission it is derived from; 0: none.")
    ] = 0,
    licence: Annotated[
        OwnLicence | Literal[""],
        Field(
            description="Of the source in public releases; none leaves it out. Before the first "
            "ranked submission, ask the person; empty means the choice of their account."
        ),
    ] = "",
    wait_for_agent: Annotated[
        bool, Field(description="Submit although nobody can run it now; ask the person first.")
    ] = False,
) -> ToolResult:
    """Submit a kernel and get its number at once; call follow next. Use mode test until it is
    correct, then benchmark, and ranked only when it beats your best.
    """
    entry, *more = load_kernel(source, path, language, others)
    submission = SubmissionRequest(
        entry.name,
        entry.data,
        problem,
        mode,
        tuple(gpus),
        runner=runner,
        waits_for_agent=wait_for_agent,
        licence=licence,
        needs_licence=True,
        precision=parse_precision(precision) if precision else 0.0,
        parent=parent,
        others=tuple(more),
    )
    key = new_id()
    answer = await retry_until_available(
        lambda: context.api.submit(submission, key),
        REPEAT_S_MAX,
        lambda _: None,  # Failed attempts last only seconds.
    )
    numbers = ", ".join(str(receipt.number) for receipt in answer.value.submissions)
    next_step = f"call follow with number {numbers} until is_over, then read_result"
    return ToolResult(answer.value, next_step)


@dataclass
class EventBatch:
    """The events of a stream since a place, a line for each that begins with its place."""

    place: int
    lines: list[str] = field(default_factory=list)
    at: float = field(default_factory=time.monotonic)

    @property
    def is_full(self) -> bool:
        """Whether no further event fits."""
        return len(self.lines) >= EVENTS_MAX

    def take(self, place: int, event: JsonObject) -> None:
        """Add a new event of the history; if there is no room, the next call returns it."""
        if place <= self.place or self.is_full:
            return
        self.place = place
        self.lines.append(event_line(event, UTC))


async def follow(
    context: ToolContext,
    number: Number,
    after: Annotated[
        int, Field(ge=0, description="Only events after this place: next_after of the last call.")
    ] = 0,
    wait_s: Annotated[
        float,
        Field(
            ge=0, le=FOLLOW_S_MAX, description="How long to wait for its end, at most 50 seconds."
        ),
    ] = 25.0,
) -> ToolResult:
    """Wait for a submission to end, at most wait_s seconds, and get what happened to it since
    `after`; call it again with next_after until is_over.
    """
    batch = EventBatch(after)
    if wait_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _listen(context, number, wait_s, batch)
    if not batch.lines:
        for event in await context.api.history(number):
            batch.take(int(event.get("id", 0)), event)
    submission = (await context.api.get(FullSubmission, "submissions", number)).value
    next_step = f"call follow again with number {number} and after {batch.place}"
    value = FollowedSubmission(
        number=number,
        state=submission.state,
        is_over=submission.is_over,
        news=submission_progress(submission).whole,
        events=batch.lines,
        next_after=batch.place,
        verdict=submission.verdict,
        outcome=submission.outcome,
    )
    return ToolResult(
        value,
        f"call read_result with number {number}" if submission.is_over else next_step,
        cut=[f"events after place {batch.place}: call again"] if batch.is_full else [],
    )


async def _listen(context: ToolContext, number: int, wait_s: float, batch: EventBatch) -> None:
    """Collect events until the end, over reconnections, and report progress.

    Raises Refused, Failed, and Unavailable if the platform is silent for too long.
    """
    began = time.monotonic()
    while True:
        try:
            async for message in context.api.events(number, batch.place):
                batch.at = time.monotonic()
                if message.kind == END:
                    return
                if sentence := _describe_message(message, batch):
                    await context.report_progress(batch.at - began, wait_s, sentence)
        except Unavailable as trouble:
            if time.monotonic() - batch.at > REPEAT_S_MAX:
                raise
            await context.report_progress(time.monotonic() - began, wait_s, str(trouble))
        await asyncio.sleep(PAUSE_S)


def _describe_message(message: StreamMessage, batch: EventBatch) -> str:
    """Describe a message, and add an event to the batch; "" if the message says nothing."""
    if notice := notice_progress(message.kind, message.data):
        return notice.whole
    if message.place is None:
        return ""
    batch.take(message.place, message.data)
    return event_line(message.data, UTC)


async def cancel(
    context: ToolContext,
    number: Number,
    reason: Annotated[str, Field(max_length=500, description="For the record.")] = "",
) -> ToolResult:
    """Cancel your submission; its quota is refunded if no run had begun."""
    path, body = ("submissions", number, "cancel"), {"reason": reason}
    answer = await context.api.act(CancelledSubmission, "POST", *path, body=body)
    return ToolResult(answer.value, f"call follow with number {number}: it is over within seconds")


async def run_locally(
    context: ToolContext,
    *,
    problem: Slug,
    source: Source = None,
    path: KernelPath = None,
    language: Language = "python",
    others: OtherFiles = None,
    mode: Annotated[
        Literal["test", "benchmark"], Field(description="test: is it right; benchmark: how fast.")
    ] = "test",
    within_s: Annotated[
        float, Field(ge=1, le=RUN_S_MAX, description="The run is stopped after this.")
    ] = 45.0,
) -> ToolResult:
    """Run a kernel on this machine's CPU in the platform's own harness: no quota, no queue, but no
    GPU and no score that counts.
    """
    entry, *more = load_kernel(source, path, language, others)
    details = await load_problem(context.api, problem)
    files = await _compile_problem_files(context.api, details)
    submission = SubmissionRequest(entry.name, entry.data, details.slug, mode, others=tuple(more))
    began = time.monotonic()

    async def report_progress(progress: Progress) -> None:
        sentence = run_progress(progress).whole
        await context.report_progress(time.monotonic() - began, within_s, sentence)

    try:
        async with asyncio.timeout(within_s):
            answer = await context.harness.run(files, submission, report_progress)
    except TimeoutError as late:
        reason = f"not over after {within_s:g} s: allow more by within_s, or submit it"
        raise Refused("too_slow", reason, "within_s") from late
    answer = with_speedups(with_roofline(answer, files.manifest))
    return _local_result(files, submission, parse_response(answer, Run))


async def _compile_problem_files(api: Api, problem: FullProblem) -> ProblemFiles:
    names = [file.name for file in problem.files][:FILES_MAX]
    files = {name: await api.file("problems", problem.slug, "files", name) for name in names}
    if not any(name in files for name in (*REFERENCES, problem.main)):
        reason = (
            f"{problem.slug} shows no reference, so it cannot be run here: submit with mode test"
        )
        raise Refused("no_reference", reason, "problem")
    return compile_files(problem.slug, starter_files(problem, files, problem.gpus))


def _local_result(files: ProblemFiles, submission: SubmissionRequest, run: Run) -> ToolResult:
    timed = [(case.time_us, case.weight) for case in run.cases if case.time_us]
    is_scored = run.verdict == "passed" and bool(timed)
    times_us, weights = [time_us for time_us, _ in timed], [weight for _, weight in timed]
    score = score_us(files.ranking_by, times_us, weights) if is_scored else None
    log, cut_note = tail(run.log_tail or run.log_head, TEXT_CHARS)
    ordered_run = msgspec.structs.replace(run, cases=order_cases(run.cases))
    return ToolResult(
        LocalRun(result=ordered_run, score_us=score, log=log),
        summary=local_lines(submission.name, submission.mode, run, score),
        cut=[f"log: {cut_note}"] if cut_note else [],
    )
