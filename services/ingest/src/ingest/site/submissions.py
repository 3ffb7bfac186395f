"""The page of a submission, and the page that compares two of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from markupsafe import Markup

from harness.vocabulary import MODES, PASSED, SKIPPED, STAGES
from ingest.identity.login.web import Form, Web
from ingest.ports import ReadProxy
from ingest.site.charts import (
    BINS,
    Histogram,
    IntervalBar,
    draw_histogram,
    make_bar,
    make_scale,
)
from ingest.site.formatting import ANSI, highlight_code, split_lines
from ingest.site.reads import (
    PageReads,
    Visitor,
    api_path,
    find_visitor,
    read_if_possible,
    read_in_time,
)
from shared.api.cases import Case
from shared.api.labels import SubmissionLabels
from shared.api.leaderboards import Comparison, Leaderboard
from shared.api.lineage import SIMILARITY_MIN, Lineage
from shared.api.moderation import Seals
from shared.api.submissions import (
    Download,
    FullSubmission,
    NewestSubmissions,
    OwnSubmissions,
    SourceText,
)
from shared.errors import Failed, Refused
from shared.events import HARNESS_CODE
from shared.presentation.failure import case_error, first_failing, is_same_failure
from shared.presentation.report_parts import captured_log, stages, submission_progress
from shared.presentation.result_card import make_result_card
from shared.presentation.run_files import (
    KERNEL_CODES,
    KERNELS,
    KERNELS_BYTES_MAX,
    TABLE,
    KernelTime,
    KernelUsage,
    read_kernel_times,
    read_kernel_usage,
    read_samples,
)
from shared.presentation.units import mark_diff_lines, seconds_text
from shared.source_files import SourceFile, zip_files
from shared.states import FINISHED, STATES

NUMBER_MAX = 2**53 - 1
CASES_MAX = 200
SOURCE_CHARS_MAX = 200_000
# Usual samples have 40 KiB per case; those of a run over these limits are not drawn.
SAMPLES_BYTES_MAX = 2 * 1024 * 1024
UNPACKED_BYTES_MAX = 8 * 1024 * 1024
HISTOGRAMS_MAX = 12
# Histograms of this many runs are kept.
RUNS_KEPT_MAX = 64
TABLE_BYTES_MAX = 256 * 1024
TABLES_MAX = 4
KERNELS_MAX = 15
CHOICES_MAX, ENTRIES_MAX = 20, 10
# While many sources are new, the page appears without the lineage.
LINEAGE_S_MAX = 2.5
# Lines of the source before and after the line of an error.
EXCERPT_LINES = 2
NUMBER_CHARS_MAX = 20
# Without scripts, the page of a submission that is not over is loaded again after this time.
RELOAD_S = 5
# Others do not see the name of the file: a file of C++ includes something, and Python does not.
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
PYTHON_LINE = re.compile(r"^(?:import|from|def) ", re.MULTILINE)
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
    "SubmissionRejudged": "run again: the new result counts",
    "RetimeRequested": "to be timed again, because the machine was too busy",
    "RetimeDiscarded": "timed again: the earlier time stays",
    "AppealFiled": "its owner appealed",
    "AppealDecided": "the appeal was decided",
    "JobAssigned": "given to an agent",
    "JobExpired": "the agent stopped responding",
    "JobRequeued": "queued again",
    "JobGivenUp": "given up after several attempts",
    "JobCancelled": "cancelled before it ran",
    "RunStarted": "started on the agent",
    "RunCompleted": "the agent reported its signed result",
    "RunFailed": "the run failed",
    "RunCancelled": "the run was cancelled",
}

NumberInPath = Annotated[int, Path(ge=1, le=NUMBER_MAX)]
StepStatus = Literal["reached", "current", "failed", "open"]
STATUS_BY_VERDICT: Mapping[str, StepStatus] = {PASSED: "reached", SKIPPED: "open"}


class _Source(msgspec.Struct):
    source_files: list[SourceText] = []


class VisibleSource(NamedTuple):
    """The files of a submission, the entry file first, or why the visitor cannot see them."""

    files: Sequence[SourceText]
    hidden_reason: str = ""

    @property
    def text(self) -> str:
        """The entry file, "" if the visitor cannot see it."""
        return self.files[0].text if self.files else ""


class RenderedFile(NamedTuple):
    """A file of a submission as HTML."""

    name: str
    code: Markup


class Step(NamedTuple):
    """A step from the receipt of a submission to its end."""

    name: str
    status: StepStatus
    detail: str = ""
    reached_at: datetime | None = None


class CaseRow(NamedTuple):
    """A case, the bar of its time, and a note if it failed otherwise than the result card says."""

    case: Case
    bar: IntervalBar | None
    note: str = ""


class RejectedForm(NamedTuple):
    """A form that was not carried out, and why."""

    form: Form
    error: Refused


class ProfileTable(NamedTuple):
    """The kernels of a profile that took the most time."""

    file: Download
    kernels: Sequence[KernelTime]


class CompiledKernels(NamedTuple):
    """What the first GPU kernels of a submission use, the number of all, and their code."""

    usages: Sequence[KernelUsage]
    total: int
    codes: Sequence[Download]


async def read_files(reads: PageReads, number: int) -> Sequence[SourceText]:
    """Read the files of a submission. Raises `Refused` if the visitor cannot see them, `Failed`."""
    path = api_path("submissions", number)
    return (await reads.read(path, _Source, source="true")).source_files


async def read_source(reads: PageReads, number: int) -> VisibleSource:
    """Read the files of a submission, or why the visitor cannot see them. Raises `Failed`."""
    try:
        return VisibleSource(await read_files(reads, number))
    except Refused as refused:
        return VisibleSource((), refused.reason)


def cut_files(files: Sequence[SourceText]) -> list[SourceText]:
    """Return what a page shows of files: the first characters of all of them together."""
    cut, chars_left = list[SourceText](), SOURCE_CHARS_MAX
    for file in files:
        cut.append(msgspec.structs.replace(file, text=file.text[:chars_left]))
        chars_left -= len(cut[-1].text)
    return cut


def pack_download(number: int, files: Sequence[SourceText]) -> Response:
    """Return all files of a submission as one download: the file, or an archive of several.

    A browser saves one file per link, so several are a ZIP; uploads take none.
    """
    if len(files) == 1:
        name, data, media = files[0].name, files[0].text.encode(), "text/plain; charset=utf-8"
    else:
        data = zip_files([SourceFile(file.name, file.text.encode()) for file in files])
        name, media = f"submission-{number}.zip", "application/zip"
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type=media, headers=headers)


async def read_lineage(reads: PageReads, number: int) -> Lineage | None:
    """Read the family of a submission; None if it has none, or if that takes too long."""
    reading = reads.read(api_path("submissions", number, "lineage"), Lineage)
    lineage = await read_if_possible(read_in_time(reading, LINEAGE_S_MAX))
    return lineage if lineage and len(lineage.items) > 1 else None


async def read_labels(reads: PageReads, number: int) -> SubmissionLabels | None:
    """Read what the advisory screen labels in a source; None for others than staff."""
    if not reads.reader.is_staff:
        return None
    reading = reads.read(api_path("admin", "labels", number), SubmissionLabels)
    return await read_if_possible(read_in_time(reading))


async def highlight_source(text: str, name: str) -> list[Markup]:
    """Return a source as lines of HTML; its language follows from its name, else its text."""
    is_native = bool(INCLUDE.search(text)) and not PYTHON_LINE.search(text)
    if name:
        is_native = not name.endswith(".py")
    language = "cuda" if is_native else "python"
    lines = await asyncio.to_thread(lambda: split_lines(highlight_code(text, language)))
    # A source that ends with a line end has no empty last line.
    return lines if lines[-1] else lines[:-1]


def render_source(lines: Sequence[Markup], error_line: int | None, prefix: str = "") -> Markup:
    """Return a source in which `#L12` is the address of a line, and the line of an error marked.

    A `prefix` before it tells the lines of several files apart.
    """
    rendered = [
        Markup('<span id="{}L{}">{}</span>').format(
            prefix, number, render_lines([line], error_line, number)
        )
        for number, line in enumerate(lines, 1)
    ]
    return Markup("").join(rendered)


def render_lines(lines: Sequence[Markup], error_line: int | None, first: int = 1) -> Markup:
    """Return lines of HTML as one block in which the line of an error is marked."""
    rendered = []
    for number, line in enumerate(lines, first):
        is_error = number == error_line
        # A reader without colours gets the mark as text.
        mark = Markup('<span class="unseen">the error is in this line: </span>') if is_error else ""
        css = "line failing" if is_error else "line"
        rendered.append(
            Markup('<span class="{}" data-line="{}">{}{}\n</span>').format(css, number, mark, line)
        )
    return Markup("").join(rendered)


def render_excerpt(lines: Sequence[Markup], error_line: int | None) -> Markup | None:
    """Return the line of an error and those around it; None if it is unknown."""
    if error_line is None or error_line > len(lines):
        return None
    first = max(1, error_line - EXCERPT_LINES)
    return render_lines(lines[first - 1 : error_line + EXCERPT_LINES], error_line, first)


async def find_previous(reads: PageReads, submission: FullSubmission) -> int | None:
    """Return the number of the owner's submission to the problem before this one."""
    filters = {"participant": submission.participant, "problem": submission.problem}
    reading = reads.read(
        api_path("submissions"), NewestSubmissions, **filters, before=submission.number, limit=1
    )
    earlier = await read_if_possible(read_in_time(reading))
    return earlier.items[0].number if earlier and earlier.items else None


def list_steps(submission: FullSubmission) -> list[Step]:
    """Return the steps of a submission; those of its run as far as the visitor sees them."""
    reached_at: dict[str, datetime] = {
        entry.state: entry.at for entry in submission.timeline if entry.state
    }
    names = [*STATES, FINISHED]
    current = max(names.index(submission.state), names.index("queued"))

    def make_step(name: str, state: str, detail: str = "") -> Step:
        index, at = names.index(state), reached_at.get(state)
        if index == current:
            return Step(name, "current", detail, at)
        return Step(name, "reached", "", at) if at and index < current else Step(name, "open")

    queue, place = submission.queue, ""
    if queue is not None:
        place = {"paused": "paused", "no_agent": "no agent"}.get(queue.state, "")
        place = place or ("" if queue.position is None else f"place {queue.position}")
    steps = [
        Step("received", "reached", "", submission.received_at),
        make_step("queued", "queued", place),
        make_step("assigned", "assigned"),
        *(list_stage_steps(submission) or [make_step("running", "running")]),
    ]
    if submission.mode == "ranked" or submission.state == "ranking":
        steps.append(make_step("ranking", "ranking"))
    return [*steps, make_step("ended", FINISHED)]


def list_stage_steps(submission: FullSubmission) -> list[Step]:
    """Return the stages of the run, none if the visitor does not see them."""
    if results := stages(submission):
        return [
            Step(
                STAGES[stage.name].title,
                STATUS_BY_VERDICT.get(stage.verdict, "failed"),
                f"{stage.passed} of {stage.total}"
                if stage.total and not STAGES[stage.name].is_hidden
                else "",
            )
            for stage in results
        ]
    progress = submission.progress
    if submission.state != "running" or progress is None:
        return []
    finished = {result.stage: result for result in progress.stages}
    steps = []
    for name in MODES[submission.mode].stages:
        title = STAGES[name].title
        if name == progress.stage:
            detail = f"{progress.done} of {progress.total}" if progress.total else ""
            steps.append(Step(title, "current", detail))
        elif name in finished:
            status = STATUS_BY_VERDICT.get(finished[name].verdict, "failed")
            steps.append(Step(title, status, seconds_text(finished[name].took_s)))
        else:
            steps.append(Step(title, "open"))
    return steps


def can_appeal(submission: FullSubmission) -> bool:
    """Return whether there is a decision to appeal, and no appeal yet."""
    ruling = submission.moderation
    if ruling is None:
        return submission.is_held
    return ruling.appeal is None and (ruling.is_held or ruling.is_disqualified)


def list_cases(cases: Sequence[Case]) -> list[CaseRow]:
    """Return the public cases with their bars, on an axis for all of them."""
    public = [case for case in cases if not case.is_hidden][:CASES_MAX]
    ends_us: list[float | None] = []
    for case in public:
        ends_us += case.interval_us or (case.time_us,)
    scale = make_scale(ends_us)
    first = first_failing(cases)
    return [
        CaseRow(
            case,
            make_bar(scale, case.time_us, case.interval_us),
            "" if first and is_same_failure(case, first) else case_error(case),
        )
        for case in public
    ]


@dataclass
class SampleCharts:
    """Draws the samples of runs, and keeps the charts by the digest of the file."""

    charts: dict[str, Sequence[Histogram]] = field(default_factory=dict)

    async def draw(self, reads: PageReads, files: Sequence[Download]) -> Sequence[Histogram]:
        """Return the histograms of a run's timed cases; none if it has no samples to read."""
        file = next((file for file in files if file.kind == "samples"), None)
        if file is None or file.bytes > SAMPLES_BYTES_MAX:
            return ()
        if file.digest not in self.charts:
            try:
                packed = await reads.read_file(file.url, SAMPLES_BYTES_MAX)
                self.charts[file.digest] = await asyncio.to_thread(_draw_samples, packed)
            except Failed:
                return ()
            if len(self.charts) > RUNS_KEPT_MAX:
                del self.charts[next(iter(self.charts))]
        return self.charts[file.digest]


def _draw_samples(packed: bytes) -> list[Histogram]:
    cases = read_samples(packed, UNPACKED_BYTES_MAX)
    return [draw_histogram(case) for case in cases[:HISTOGRAMS_MAX]]


async def read_profiles(reads: PageReads, files: Sequence[Download]) -> list[ProfileTable]:
    """Read the tables of a profiled run; those that cannot be read are left out."""
    tables = [file for file in files if file.name.endswith(TABLE)][:TABLES_MAX]
    results = await asyncio.gather(
        *(reads.read_file(file.url, TABLE_BYTES_MAX) for file in tables), return_exceptions=True
    )
    profiles = []
    for file, data in zip(tables, results, strict=True):
        if isinstance(data, bytes) and (kernels := read_kernel_times(data)):
            profiles.append(ProfileTable(file, kernels[:KERNELS_MAX]))
        elif isinstance(data, BaseException) and not isinstance(data, Failed):
            raise data
    return profiles


async def read_kernels(reads: PageReads, files: Sequence[Download]) -> CompiledKernels | None:
    """Read what the GPU kernels of a profiled run use; None if it has none that can be read."""
    file = next((file for file in files if file.name == KERNELS), None)
    if file is None or file.bytes > KERNELS_BYTES_MAX:
        return None
    try:
        usages = read_kernel_usage(await reads.read_file(file.url, KERNELS_BYTES_MAX))
    except Failed:
        return None
    codes = [file for file in files if file.name in KERNEL_CODES]
    return CompiledKernels(usages[:KERNELS_MAX], len(usages), codes) if usages else None


@dataclass(frozen=True)
class SubmissionPage:
    """Renders the page of a submission."""

    web: Web
    charts: SampleCharts = field(default_factory=SampleCharts)

    async def render(
        self,
        request: Request,
        visitor: Visitor,
        number: int,
        rejected: RejectedForm | None = None,
    ) -> Response:
        """Return the page, with a form and its error if it was rejected.

        Raises `Refused` and `Failed`.
        """
        submission, values = await read_in_time(self._load(visitor.reads, number))
        is_own = submission.participant_id == visitor.account
        values |= {
            "previous": await find_previous(visitor.reads, submission) if is_own else None,
            "submission": submission,
            "is_own": is_own,
            "can_appeal": can_appeal(submission),
            "note": rejected.form.text("note") if rejected else submission.note or "",
            "tag": rejected.form.text("tag") if rejected else submission.tag or "",
            "appeal": rejected.form.text("text") if rejected else "",
            "reload_s": RELOAD_S,
        }
        return self.web.public_page(
            request,
            "submission.html",
            visitor.session,
            has_script=True,
            error=rejected.error if rejected else None,
            **values,
        )

    async def _load(self, reads: PageReads, number: int) -> tuple[FullSubmission, dict[str, Any]]:
        """Read a submission, and what the page derives from it."""
        submission, source, seals, lineage, labels = await asyncio.gather(
            reads.read(api_path("submissions", number), FullSubmission),
            read_source(reads, number),
            read_if_possible(reads.read(api_path("audit", "seals"), Seals, limit=1)),
            read_lineage(reads, number),
            read_labels(reads, number),
        )
        card = make_result_card(submission, source.text) if submission.is_over else None
        error_line = card.failure.error_line if card and card.failure else None
        visible_files = cut_files(source.files)
        entry, *others = visible_files or [SourceText(name="", text="")]
        lines, other_lines, histograms, profiles, kernels = await asyncio.gather(
            highlight_source(entry.text, submission.name),
            asyncio.gather(*(highlight_source(file.text, file.name) for file in others)),
            self.charts.draw(reads, submission.files),
            read_profiles(reads, submission.files),
            read_kernels(reads, submission.files),
        )
        printed = msgspec.structs.replace(
            submission,
            log_head=ANSI.sub("", submission.log_head),
            log_tail=ANSI.sub("", submission.log_tail),
        )
        return submission, {
            # Others than the owner and staff get no timing of stages, environment or log.
            "is_full": submission.source_digest is not None,
            "is_cancelling": any(
                entry.type == "SubmissionCancelRequested" for entry in submission.timeline
            ),
            "steps": list_steps(submission),
            "progress": submission_progress(submission).whole,
            "cases": list_cases(submission.cases),
            "has_roofline": any(case.roofline for case in submission.cases),
            "has_baselines": any(case.vs_baseline for case in submission.cases),
            "cases_more": max(0, sum(not case.is_hidden for case in submission.cases) - CASES_MAX),
            "hidden": Counter(case.verdict for case in submission.cases if case.is_hidden),
            "histograms": histograms,
            "bins": BINS,
            "profiles": profiles,
            "kernels": kernels,
            "event_words": EVENT_WORDS,
            "log": captured_log(printed),
            "result_seq": next(
                (entry.seq for entry in submission.timeline if entry.type == "RunCompleted"), None
            ),
            "seal": seals.items[0] if seals and seals.items else None,
            "harness": submission.environment.get(HARNESS_CODE, ""),
            "harness_name": HARNESS_CODE,
            "source": source,
            "lineage": lineage,
            "labels": labels.labels if labels else None,
            "similarity_min": SIMILARITY_MIN,
            "card": card,
            "excerpt": render_excerpt(lines, error_line),
            "code": [
                RenderedFile(file.name, render_source(rows, error_line if not n else None, prefix))
                for n, (file, rows) in enumerate(
                    zip(visible_files, [lines, *other_lines], strict=False)
                )
                for prefix in [f"F{n + 1}-" if n else ""]
            ],
        }


def add_submission_page(router: APIRouter, page: SubmissionPage, ranker: ReadProxy) -> None:
    """Add the page of a submission."""

    @router.get("/submissions/{number}")
    async def submission_page(request: Request, number: NumberInPath) -> Response:
        """A submission; it follows the events while the submission is not over."""
        visitor = await find_visitor(request, page.web, ranker)
        return await page.render(request, visitor, number)

    @router.get("/submissions/{number}/source")
    async def source_download(request: Request, number: NumberInPath) -> Response:
        """The files of a submission as a download."""
        visitor = await find_visitor(request, page.web, ranker)
        files = await read_in_time(read_files(visitor.reads, number))
        return pack_download(number, files)


def parse_number(text: str, field: str) -> int:
    """Return the number of a submission from a field of a form. Raises `Refused`.

    >>> parse_number("12", "with"), parse_number("#12", "with")
    (12, 12)
    """
    digits = text.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and 1 <= int(digits) <= NUMBER_MAX):
        message = f"{field}: expected the number of a submission, such as 12, not {text[:20]!r}"
        raise Refused("invalid_request", message, field)
    return int(digits)


async def _read_choices(visitor: Visitor, submission: FullSubmission) -> dict[str, Any]:
    """Return what a submission may be compared with: the first entries, and the visitor's own."""
    reads = visitor.reads
    values: dict[str, Any] = {"entries": [], "choices": []}
    board = await read_if_possible(
        read_in_time(
            reads.read(
                api_path("leaderboards", submission.problem, submission.gpu),
                Leaderboard,
                version=submission.problem_version,
                limit=ENTRIES_MAX,
            )
        )
    )
    if board is not None:
        values["entries"] = [row for row in board.items if row.number != submission.number]
    if visitor.account is not None:
        path = api_path("me", "submissions")
        filters = {"problem": submission.problem, "limit": CHOICES_MAX}
        own = await read_in_time(reads.read(path, OwnSubmissions, **filters))
        values["choices"] = [line for line in own.items if line.number != submission.number]
    return values


def add_comparison_page(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    """Add the page that compares two submissions."""

    @router.get("/submissions/{number}/compare")
    async def comparison_page(
        request: Request,
        number: NumberInPath,
        other: Annotated[str, Query(alias="with", max_length=NUMBER_CHARS_MAX)] = "",
    ) -> Response:
        """How another submission differs from this one; without another, a choice of them."""
        visitor = await find_visitor(request, web, ranker)
        reads, other = visitor.reads, other.strip()
        values: dict[str, Any] = {"number": number, "comparison": None}
        if other:
            pair = {"a": number, "b": parse_number(other, "with")}
            reading = reads.read(api_path("compare"), Comparison, **pair)
            comparison = await read_in_time(reading)
            cases = [case for case in comparison.cases if case.ratio or case.outcome != "same"]
            values |= {
                "comparison": comparison,
                "cases": cases,
                # Cases that are only checked, with the same verdict, are counted.
                "same_count": len(comparison.cases) - len(cases),
                "diffs": [
                    (file, mark_diff_lines(file.diff))
                    for file in comparison.files
                    if file.change != "same"
                ],
                "same_files": [file.name for file in comparison.files if file.change == "same"],
            }
        else:
            submission = await read_in_time(
                reads.read(api_path("submissions", number), FullSubmission)
            )
            values |= await _read_choices(visitor, submission)
        return web.public_page(request, "comparison.html", visitor.session, **values)
