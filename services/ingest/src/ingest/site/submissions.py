"""The page of a submission: its state, result, cases, events, environment and source."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Path, Request, Response

from ingest.login.web import Web
from ingest.ports import ReadProxy
from ingest.site.charts import IntervalBar, make_bar, make_scale
from ingest.site.reads import (
    PageReads,
    api_path,
    find_visitor,
    read_if_possible,
    read_in_time,
)
from shared.api.cases import Case
from shared.api.moderation import Seals
from shared.api.submissions import FullSubmission
from shared.errors import Refused
from shared.events import HARNESS_CODE
from shared.presentation.report_parts import captured_log, stages, submission_progress
from shared.presentation.units import escape_control_characters
from shared.states import FINISHED, STATES

NUMBER_MAX = 2**53 - 1
CASES_MAX = 200
SOURCE_CHARS_MAX = 200_000
# Without scripts, the page of a submission that is not over is loaded again after this time.
RELOAD_S = 5
TIMED = "time"
EVENT_WORDS: Mapping[str, str] = {
    "SubmissionReceived": "received and stored",
    "SubmissionCancelRequested": "its owner asked to cancel it",
    "SubmissionRanked": "ranked",
    "SubmissionNotRanked": "finished without a rank",
    "SubmissionHeld": "held for review",
    "SubmissionCancelled": "cancelled",
    "SubmissionEnded": "finished",
    "SubmissionReleased": "released from review",
    "SubmissionDisqualified": "disqualified",
    "SubmissionRestored": "restored",
    "SubmissionWithdrawn": "taken off the leaderboard",
    "SubmissionRejudged": "rejudged under another version",
    "AppealFiled": "its owner appealed",
    "AppealDecided": "the appeal was decided",
    "JobQueued": "queued",
    "JobAssigned": "given to an agent",
    "JobExpired": "the agent stopped responding",
    "JobRequeued": "queued again",
    "JobGivenUp": "given up after several attempts",
    "JobCancelled": "cancelled before it ran",
    "RunStarted": "started on the agent",
    "StageCompleted": "finished a stage",
    "RunCompleted": "the agent reported its signed result",
    "RunFailed": "the run failed",
    "RunCancelled": "the run was cancelled",
}

NumberInPath = Annotated[int, Path(ge=1, le=NUMBER_MAX)]


class _Source(msgspec.Struct):
    source: str | None = None


class SourceText(NamedTuple):
    """The source of a submission, or why the visitor cannot see it."""

    text: str
    hidden_reason: str = ""


class Step(NamedTuple):
    """A state of a submission, and when it was reached; None if it has not been yet."""

    name: str
    reached_at: datetime | None
    is_current: bool


class CaseRow(NamedTuple):
    """A case, and the bar of its time."""

    case: Case
    bar: IntervalBar | None


async def read_source(reads: PageReads, number: int) -> SourceText:
    """Read the source of a submission. Raises `Failed`."""
    try:
        path = api_path("submissions", number)
        source = (await reads.read(path, _Source, source="true")).source or ""
    except Refused as refused:
        return SourceText("", refused.reason)
    return SourceText(escape_control_characters(source[:SOURCE_CHARS_MAX]))


def list_steps(submission: FullSubmission) -> list[Step]:
    """Return the states in their order, each with the instant of its newest event."""
    reached: dict[str, datetime] = {
        entry.state: entry.at for entry in submission.timeline if entry.state
    }
    names = [*STATES, FINISHED]
    current = names.index(submission.state)
    return [
        Step(name, reached.get(name) if index <= current else None, index == current)
        for index, name in enumerate(names)
        if name != "received" or index == current
    ]


def list_cases(cases: Sequence[Case]) -> list[CaseRow]:
    """Return the public cases with their bars, on an axis for all of them."""
    public = [case for case in cases if not case.is_hidden][:CASES_MAX]
    ends_us: list[float | None] = []
    for case in public:
        ends_us += case.interval_us or (case.time_us,)
    scale = make_scale(ends_us)
    return [CaseRow(case, make_bar(scale, case.time_us, case.interval_us)) for case in public]


def add_submission_pages(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the page of a submission."""

    @router.get("/submissions/{number}")
    @router.head("/submissions/{number}")
    async def submission_page(request: Request, number: NumberInPath) -> Response:
        """A submission; it follows the events while the submission is not over."""
        visitor = await find_visitor(request, web, ranker)
        submission, source, seals = await read_in_time(
            asyncio.gather(
                visitor.reads.read(api_path("submissions", number), FullSubmission),
                read_source(visitor.reads, number),
                read_if_possible(visitor.reads.read(api_path("audit", "seals"), Seals, limit=1)),
            )
        )
        # Others than the owner and staff get no timing of stages, environment or log.
        is_full = submission.source_digest is not None
        values: dict[str, Any] = {
            "submission": submission,
            "is_full": is_full,
            "is_own": submission.participant_id == visitor.account,
            "steps": list_steps(submission),
            "stages": stages(submission),
            "progress": submission_progress(submission).whole,
            "cases": list_cases(submission.cases),
            "has_roofline": any(case.roofline for case in submission.cases),
            "has_baselines": any(case.vs_baseline for case in submission.cases),
            "cases_more": max(0, sum(not case.is_hidden for case in submission.cases) - CASES_MAX),
            "hidden": Counter(case.verdict for case in submission.cases if case.is_hidden),
            "event_words": EVENT_WORDS,
            "result_seq": next(
                (entry.seq for entry in submission.timeline if entry.type == "RunCompleted"), None
            ),
            "seal": seals.items[0] if seals and seals.items else None,
            "log": captured_log(submission),
            "harness": submission.environment.get(HARNESS_CODE, ""),
            "harness_name": HARNESS_CODE,
            "source": source,
            "reload_s": RELOAD_S,
        }
        has_script = not submission.is_over
        return web.public_page(
            request, "submission.html", visitor.session, has_script=has_script, **values
        )
