"""Tools that read the result of a submission: verdict, cases, output, profile, comparison."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from shared.api.cases import Case
from shared.api.leaderboards import Comparison
from shared.api.lineage import Lineage
from shared.api.submissions import FullSubmission
from shared.endings import AGENTS_LOST
from shared.errors import Refused
from shared.presentation.report_parts import submission_progress
from shared.presentation.result_card import card_lines, make_result_card
from warpboard.api import Api
from warpboard.mcp.context import (
    TEXT_CHARS,
    Chars,
    Name,
    Number,
    ToolContext,
    ToolResult,
    head,
    tail,
)

REPORT_BYTES_MAX = 4 * 1024 * 1024
GOOD = ("passed", "skipped")
LOG = "log.txt"
READABLE = (".txt", ".csv", ".md", ".json", ".log")


class SubmissionText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a submission, shortened to the limit, and the names of all its files."""

    number: int
    name: str
    text: str
    files: list[str]


async def read_result(context: ToolContext, number: Number) -> ToolResult:
    """Read how a submission ended: verdict, cases with messages and wrong elements, times with
    intervals, rank or why it has none.
    """
    submission = await _submission(context.api, number)
    if submission.is_over:
        summary = card_lines(make_result_card(submission))
    else:
        summary = [submission_progress(submission).whole]
    return ToolResult(
        msgspec.structs.replace(submission, cases=order_cases(submission.cases)),
        next_step=_next_step(submission),
        summary=summary,
    )


async def _submission(api: Api, number: int) -> FullSubmission:
    return (await api.get(FullSubmission, "submissions", number)).value


def order_cases(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that did not pass first, visible ones before hidden ones."""
    return sorted(cases, key=lambda case: (case.verdict in GOOD, case.is_hidden))


def _next_step(submission: FullSubmission) -> str:
    if not submission.is_over:
        return f"call follow with number {submission.number} until is_over"
    if submission.code == AGENTS_LOST:
        return "its agent failed twice: look for what may stop a whole machine"
    if submission.outcome == "infra_failed":
        return "the platform failed, not the kernel: submit the same again"
    if submission.outcome != "passed":
        return "fix what cases and reason report; read_log has what the kernel printed"
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
) -> ToolResult:
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
    return ToolResult(SubmissionText(number=number, name=LOG, text=excerpt, files=names), cut=cut)


async def read_profile(
    context: ToolContext,
    number: Number,
    file: Annotated[
        Name | None, Field(description="A name from files; none is the first report in text.")
    ] = None,
    chars_max: Chars = TEXT_CHARS,
) -> ToolResult:
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
    value = SubmissionText(number=number, name=name, text=excerpt, files=names)
    return ToolResult(value, cut=[cut_note] if cut_note else [])


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


async def read_lineage(context: ToolContext, number: Number) -> ToolResult:
    """Read what a submission comes from, declared or detected, and what comes from it, with the
    speed-up that each step gained; generation 0 is the submission itself.
    """
    lineage = (await context.api.get(Lineage, "submissions", number, "lineage")).value
    hint = "compare shows what a step changed: a is the parent, b the child"
    return ToolResult(lineage, next_step=hint if len(lineage.items) > 1 else "")


async def compare(context: ToolContext, a: Number, b: Number) -> ToolResult:
    """Compare two submissions: source diff and each case's ratio of times with its interval; a
    ratio below 1 means that b is faster, and one whose interval holds 1 is no difference.
    """
    comparison = (await context.api.get(Comparison, "compare", a=a, b=b)).value
    hint = "" if comparison.score.ratio else "compare two of mode benchmark or ranked for a ratio"
    return ToolResult(comparison, next_step=hint)
