"""Tools that read the result of a submission: verdict, cases, output, profile, comparison."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from shared.api.cases import Roofline
from shared.api.leaderboards import ComparedCase, Comparison
from shared.api.submissions import FullSubmission, Ranking
from shared.errors import Refused
from shared.presentation.outcome import AnyRun, outcome_lines
from shared.presentation.report_parts import submission_progress
from shared.run_values import Mismatch
from warpboard.api import Api
from warpboard.mcp.context import (
    TEXT_CHARS,
    Chars,
    Name,
    Number,
    ToolContext,
    ToolResponse,
    head,
    shorten,
    tail,
    take_first,
)

CASES_MAX = 24
TIMED_MAX = 64
MISMATCHES_MAX = 5
DIFF_CHARS_MAX = 20_000
REPORT_BYTES_MAX = 4 * 1024 * 1024
GOOD = ("passed", "skipped")
LOG = "log.txt"
READABLE = (".txt", ".csv", ".md", ".json", ".log")


class FailedCase(ToolResponse, frozen=True, kw_only=True):
    """A case that did not pass; a hidden one shows only its verdict."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    wrong: int = 0
    mismatches: list[Mismatch] = []


class TimedCase(ToolResponse, frozen=True, kw_only=True):
    """The time of a case, its interval, and the speed-ups over the yardstick and baselines."""

    name: str
    time_us: float
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    grade: str = ""
    roofline: Roofline | None = None
    vs_baseline: dict[str, float] = {}
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None


class SubmissionResult(ToolResponse, frozen=True, kw_only=True):
    """How a submission ended, or where it is."""

    number: int
    problem: str
    gpu: str
    mode: str
    state: str
    is_over: bool
    summary: list[str]
    next: str
    outcome: str | None = None
    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    score_us: float | None = None
    interval_us: tuple[float, float] | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    ranking: Ranking | None = None
    cases_count: int = 0
    failing: list[FailedCase] = []
    timed: list[TimedCase] = []
    grade: str = ""
    is_provisional: bool = False
    tier: str | None = None
    level: str | None = None
    files: list[str] = []
    cut: list[str] = []


class SubmissionText(ToolResponse, frozen=True, kw_only=True):
    """A text of a submission, shortened to the limit."""

    number: int
    name: str
    text: str
    files: list[str] = []
    cut: list[str] = []


class CompareResult(ToolResponse, frozen=True, kw_only=True):
    """A comparison of two submissions; a ratio below 1 means that b is faster."""

    a: int
    b: int
    summary: str
    cases: list[ComparedCase]
    score: ComparedCase | None = None
    diff: str | None = None
    cut: list[str] = []


async def read_result(context: ToolContext, number: Number) -> SubmissionResult:
    """Read how a submission ended: verdict, failing cases with messages and wrong elements, times
    with intervals, rank or why it has none.
    """
    submission = await _submission(context.api, number)
    failed_cases, cut = failing(submission)
    timed_cases, timed_cut = timed(submission)
    ranking = submission.ranking
    return SubmissionResult(
        number=submission.number,
        problem=submission.problem,
        gpu=submission.gpu,
        mode=submission.mode,
        state=submission.state,
        is_over=submission.is_over,
        summary=outcome_lines(submission)
        if submission.is_over
        else [submission_progress(submission).whole],
        next=_next_step(submission),
        outcome=submission.outcome,
        verdict=submission.verdict,
        stage=submission.stage,
        reason=shorten(submission.reason or "") or None,
        score_us=ranking.score_us if ranking and ranking.score_us else submission.score_us,
        interval_us=ranking.interval_us if ranking else None,
        speedup=submission.speedup,
        speedup_interval=submission.speedup_interval,
        ranking=ranking if submission.is_over else None,
        cases_count=len(submission.cases),
        failing=failed_cases,
        timed=timed_cases,
        grade=submission.grade,
        is_provisional=submission.is_provisional,
        tier=submission.tier,
        level=submission.level,
        files=[file.name for file in submission.files],
        cut=[*cut, *timed_cut],
    )


async def _submission(api: Api, number: int) -> FullSubmission:
    return (await api.get(FullSubmission, "submissions", number)).value


def failing(run: AnyRun) -> tuple[list[FailedCase], list[str]]:
    """Return the cases that did not pass, visible ones first, and what was left out."""
    failed = sorted(
        (case for case in run.cases if case.verdict not in GOOD), key=lambda c: c.is_hidden
    )
    reported, cut = take_first(failed, CASES_MAX, "failing cases")
    return [
        FailedCase(
            name="a hidden case" if case.is_hidden else case.name,
            stage=case.stage,
            verdict=case.verdict,
            message=shorten(case.message),
            wrong=case.wrong,
            mismatches=case.mismatches[:MISMATCHES_MAX],
        )
        for case in reported
    ], cut


def timed(run: AnyRun) -> tuple[list[TimedCase], list[str]]:
    """Return the cases with a time, and what was left out."""
    reported, cut = take_first(
        [case for case in run.cases if case.time_us], TIMED_MAX, "timed cases"
    )
    return msgspec.convert(reported, list[TimedCase], from_attributes=True), cut


def _next_step(submission: FullSubmission) -> str:
    if not submission.is_over:
        return f"call follow with number {submission.number} until is_over"
    if submission.outcome == "infra_failed":
        return "the platform failed, not the kernel: submit the same again"
    if submission.outcome != "passed":
        return "fix what failing and reason report; read_log has what the kernel printed"
    return {
        "test": "it is correct; submit with mode benchmark to see how fast it is",
        "benchmark": "compare it with your best; submit with mode ranked if it is better",
        "profile": "call read_profile",
        "ranked": "call leaderboard to see where it stands",
    }.get(submission.mode, "submit with mode ranked to get a rank")


async def read_log(
    context: ToolContext,
    number: Number,
    end: Annotated[
        Literal["head", "tail"], Field(description="The log's beginning or its end.")
    ] = "tail",
    chars_max: Chars = TEXT_CHARS,
) -> SubmissionText:
    """Read what a submission printed, its compiler's messages included."""
    submission = await _submission(context.api, number)
    names = [entry.name for entry in submission.files]
    if LOG in names:
        text = await _download_text(context.api, number, LOG)
    else:
        text = "\n".join(part for part in (submission.log_head, submission.log_tail) if part)
    truncate = head if end == "head" else tail
    excerpt, cut_note = truncate(text, chars_max)
    cut = [cut_note] if cut_note else []
    if not text:
        cut = ["it printed nothing" if submission.is_over else "it is not over: follow it first"]
    return SubmissionText(number=number, name=LOG, text=excerpt, files=names, cut=cut)


async def read_profile(
    context: ToolContext,
    number: Number,
    file: Annotated[
        Name | None, Field(description="A name from files; none is the first report in text.")
    ] = None,
    chars_max: Chars = TEXT_CHARS,
) -> SubmissionText:
    """Read the report of a submission of mode profile as text, to see where time goes."""
    submission = await _submission(context.api, number)
    names = [entry.name for entry in submission.files]
    name = file or _find_report(submission, names)
    if name not in names:
        known = ", ".join(names) or "none"
        reason = f"submission {number} has no file {name!r}: {known}"
        raise Refused("unknown_file", reason, "file")
    if not name.endswith(READABLE):
        texts = ", ".join(known for known in names if known.endswith(READABLE)) or "none"
        raise Refused("not_text", f"{name} is not a text file; the text files are: {texts}", "file")
    text = await _download_text(context.api, number, name)
    excerpt, cut_note = head(text, chars_max)
    return SubmissionText(
        number=number, name=name, text=excerpt, files=names, cut=[cut_note] if cut_note else []
    )


def _find_report(submission: FullSubmission, names: Iterable[str]) -> str:
    for name in names:
        if name.startswith("profile") and name.endswith(READABLE):
            return name
    if not submission.is_over:
        reason = f"submission {submission.number} is not over: follow it first"
    elif submission.mode != "profile":
        reason = (
            f"submission {submission.number} has mode {submission.mode}: submit with mode profile"
        )
    else:
        reason = f"the profile of submission {submission.number} left no report: see read_result"
    raise Refused("no_profile", reason, "number")


async def _download_text(api: Api, number: int, name: str) -> str:
    """Return a file as text, up to the limit."""
    data = bytearray()
    async for piece in api.download(number, name):
        data += piece
        if len(data) > REPORT_BYTES_MAX:
            command = f"warpboard submission show {number} --save DIR"
            reason = f"{name} is over {REPORT_BYTES_MAX:,} bytes: {command}"
            raise Refused("file_too_large", reason, "file")
    return data.decode(errors="replace")


async def compare(context: ToolContext, a: Number, b: Number) -> CompareResult:
    """Compare two submissions: source diff and each case's ratio of times with its interval; a
    ratio whose interval holds 1 is no difference.
    """
    comparison = (await context.api.get(Comparison, "compare", a=a, b=b)).value
    diff, cut_note = head(comparison.diff or "", DIFF_CHARS_MAX)
    cases, cut = take_first(comparison.cases, TIMED_MAX, "cases")
    score = comparison.score
    if score.ratio is None:
        summary = "no time of both is known: compare two of mode benchmark or ranked"
    else:
        summary = f"b takes {score.ratio:.3f} times as long as a"
    if score.ratio is not None and score.ci95 is not None:
        low, high = score.ci95
        is_clear = not low <= 1 <= high
        verdict = "a difference" if is_clear else "no difference that these runs show"
        summary = f"{summary} (95 %: {low:.3f} to {high:.3f}): {verdict}"
    return CompareResult(
        a=a,
        b=b,
        summary=summary,
        cases=cases,
        score=score,
        diff=None if comparison.diff is None else diff,
        cut=[*([f"diff: {cut_note}"] if cut_note else []), *cut],
    )
