"""The tool that runs a kernel on this machine, in the agents' harness."""

import asyncio
import time
from typing import Annotated, Literal

from msgspec import Meta

from shared.api.problems import FullProblem
from shared.api.submissions import Progress, SubmissionRequest
from shared.errors import Refused
from shared.presentation.report_parts import run_progress
from shared.presentation.responses import Run, parse_response
from shared.problems.cases import score_us
from shared.problems.compilation import compile_problem
from warpboard.mcp.context import (
    TEXT_CHARS,
    KernelPath,
    Language,
    Slug,
    Source,
    Tool,
    ToolContext,
    ToolRequest,
    ToolResponse,
    load_kernel,
    shorten,
    tail,
)
from warpboard.mcp.problems import load_problem
from warpboard.mcp.results import FailedCase, TimedCase, failing, timed
from warpboard.service.local_run import local_lines, with_roofline
from warpboard.service.ports import Api, LocalRunTerms, ProblemFiles
from warpboard.service.starters import starter_files

RUN_S_MAX = 50
REFERENCES = ("reference.py", "reference.cuh")
FILES_MAX = 64
HERE = "CPU"


class RunLocallyRequest(ToolRequest, frozen=True, kw_only=True):
    """A kernel to run on this machine's CPU."""

    problem: Slug
    source: Source = None
    path: KernelPath = None
    language: Language = "python"
    mode: Annotated[
        Literal["test", "benchmark"], Meta(description="test: is it right; benchmark: how fast.")
    ] = "test"
    within_s: Annotated[
        float, Meta(ge=1, le=RUN_S_MAX, description="The run is stopped after this.")
    ] = 45.0


class LocalRunResult(ToolResponse, frozen=True, kw_only=True):
    """How a run on this machine ended; it does not count."""

    problem: str
    verdict: str | None
    summary: list[str]
    stage: str | None = None
    reason: str | None = None
    score_us: float | None = None
    failing: list[FailedCase] = []
    timed: list[TimedCase] = []
    log: str = ""
    cut: list[str] = []


def local_tools() -> tuple[Tool, ...]:
    """Return the tool that runs a kernel on this machine."""
    return (
        Tool(
            run_locally,
            RunLocallyRequest,
            LocalRunResult,
            "Run a kernel on this machine's CPU in the platform's own harness: no quota, no "
            "queue, but no GPU and no score that counts.",
            is_slow=True,
        ),
    )


async def run_locally(context: ToolContext, request: RunLocallyRequest) -> LocalRunResult:
    """Run a kernel on this machine's CPU with seeds of our own. Raises Refused and Failed."""
    name, source = load_kernel(context, request.source, request.path, request.language)
    problem = await load_problem(context.api, request.problem)
    files = await _compile_problem_files(context.api, problem)
    submission = SubmissionRequest(name, source, problem.slug, request.mode)
    began = time.monotonic()

    async def report_progress(progress: Progress) -> None:
        await context.told(time.monotonic() - began, request.within_s, run_progress(progress).whole)

    try:
        async with asyncio.timeout(request.within_s):
            answer = await context.harness.run(files, submission, report_progress, LocalRunTerms())
    except TimeoutError as late:
        reason = f"not over after {request.within_s:g} s: allow more by within_s, or submit it"
        raise Refused("too_slow", reason, "within_s") from late
    answer = with_roofline(answer, files.manifest, HERE)
    return _build_result(files, submission, parse_response(answer, Run))


async def _compile_problem_files(api: Api, problem: FullProblem) -> ProblemFiles:
    """Compile the problem from the files that participants may read."""
    names = [file.name for file in problem.files][:FILES_MAX]
    files = {name: await api.file("problems", problem.slug, "files", name) for name in names}
    if not any(name in files for name in (*REFERENCES, problem.main)):
        reason = (
            f"{problem.slug} shows no reference, so it cannot be run here: submit with mode test"
        )
        raise Refused("no_reference", reason, "problem")
    files = starter_files(problem, files, problem.gpus)
    version = compile_problem(problem.slug, files)
    return ProblemFiles(
        slug=problem.slug,
        files=files,
        manifest=version.manifest,
        version_files=version.files,
        ranking_by=version.ranking_by,
    )


def _build_result(files: ProblemFiles, submission: SubmissionRequest, run: Run) -> LocalRunResult:
    failed_cases, cut = failing(run)
    timed_cases, timed_cut = timed(run)
    times_us = [case.time_us for case in timed_cases]
    is_scored = run.verdict == "passed" and bool(times_us) and not timed_cut
    score = score_us(files.ranking_by, times_us) if is_scored else None
    log, cut_note = tail(run.log_tail or run.log_head, TEXT_CHARS)
    return LocalRunResult(
        problem=files.slug,
        verdict=run.verdict,
        summary=local_lines(submission.name, submission.mode, run, score),
        stage=run.stage,
        reason=shorten(run.reason or "") or None,
        score_us=score,
        failing=failed_cases,
        timed=timed_cases,
        log=log,
        cut=[*cut, *timed_cut, *([f"log: {cut_note}"] if cut_note else [])],
    )
