"""Submit files, and show submissions."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

import msgspec

from shared.api.cases import Case
from shared.api.submissions import (
    File,
    FullSubmission,
    NewestSubmissions,
    OwnSubmissions,
    Receipt,
    SubmissionLine,
    SubmissionReceipts,
    SubmissionRequest,
    TimelineEntry,
)
from shared.clock import new_id
from shared.errors import Refused
from shared.presentation.outcome import (
    log_lines,
    note_lines,
    outcome_lines,
    roofline_text,
    speedups_text,
)
from shared.presentation.report_parts import stage_lines, submission_progress, system_lines
from shared.presentation.units import (
    NO_VALUE,
    instant_text,
    interval_text,
    null_text,
    numbers_text,
    one_line,
    time_text,
)
from shared.problems.submission_file import late_directives, read_directives
from warpboard.domain.exit_codes import FAILED, INFRASTRUCTURE, NOT_RANKED, OK, worst
from warpboard.domain.tables import Table, insert_column
from warpboard.service.answers import show_answer
from warpboard.service.ports import Api, Disk, Response, Screen
from warpboard.service.queues import balance_text
from warpboard.service.waiting import retry_until_available, wait_until_over

REPEAT_S_MAX = 30.0
HIDDEN = "hidden"


@dataclass(frozen=True)
class SubmitOptions:
    """The options of the submit command."""

    file: Path
    leaderboard: str | None
    gpus: tuple[str, ...]
    mode: str
    is_waiting: bool
    as_json: bool
    timeout_s: float
    output: Path | None = None
    note: str = ""
    tag: str = ""
    case: int = 0


async def submit(api: Api, disk: Disk, screen: Screen, options: SubmitOptions) -> int:
    """Submit, wait if requested, and return the exit code. Raises Refused and Failed."""
    request = build_request(disk, options)
    for number in late_directives(decode_source(request.source)):
        problem_text = "a directive below the leading comments does nothing"
        screen.note(f"warpboard: {options.file}, line {number}: {problem_text}")
    answer = await retry_until_available(
        _send_with_key(api, request),
        REPEAT_S_MAX,
        lambda trouble: screen.note(f"warpboard: {trouble}"),
    )
    receipts = answer.value
    if not options.is_waiting:
        _output_answer(disk, screen, options, answer.document)
        for receipt in receipts.submissions if not options.as_json else ():
            screen.say(_received_line(request.problem, receipt))
            screen.note(f"see how it goes: warpboard submission show {receipt.number} --wait")
        return OK
    for receipt in receipts.submissions:
        screen.note(_received_line(request.problem, receipt))
    numbers = [receipt.number for receipt in receipts.submissions]
    answers = await wait_until_over(api, screen, numbers, options.timeout_s)
    document = {"submissions": [final_answer.document for final_answer in answers]}
    _output_answer(disk, screen, options, document)
    submissions = [final_answer.value for final_answer in answers]
    for submission in submissions if not options.as_json else ():
        for line in outcome_lines(submission):
            screen.say(line)
    return worst(exit_code(submission) for submission in submissions)


def _output_answer(disk: Disk, screen: Screen, options: SubmitOptions, document: object) -> None:
    """Print or write the whole answer if requested."""
    if options.as_json:
        screen.json(document)
    if options.output is not None:
        disk.write(
            options.output, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        )
        screen.note(f"the whole answer is in {options.output}")


def build_request(disk: Disk, options: SubmitOptions) -> SubmissionRequest:
    """Build the request from a file and the options. Raises Refused without a leaderboard."""
    source = disk.source(options.file)
    leaderboard = options.leaderboard or read_directives(decode_source(source)).leaderboard
    if leaderboard is None:
        raise Refused(
            "unknown_leaderboard",
            "say for which leaderboard: --leaderboard NAME, or #!POPCORN leaderboard NAME "
            "as the file's first line",
        )
    return SubmissionRequest(
        name=options.file.name,
        source=source,
        problem=leaderboard,
        mode=options.mode,
        gpus=options.gpus,
        note=options.note,
        tag=options.tag,
        case=options.case,
    )


def decode_source(source: bytes) -> str:
    """Decode a source. Raises Refused `not_utf8`."""
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            "not_utf8", f"the file is not UTF-8 text: byte {error.start} cannot be read", "file"
        ) from error


def _send_with_key(
    api: Api, request: SubmissionRequest
) -> Callable[[], Awaitable[Response[SubmissionReceipts]]]:
    key = new_id()
    return lambda: api.submit(request, key)


def _received_line(problem: str, receipt: Receipt) -> str:
    quota = f"; {balance_text(receipt.quota)}" if receipt.quota else ""
    return f"submission {receipt.number} received: {problem} on {receipt.gpu}{quota}"


def exit_code(submission: FullSubmission) -> int:
    """Return the exit code for a submission's end; an open submission is no failure."""
    if not submission.is_over:
        return OK
    if submission.outcome == "passed":
        is_unranked = submission.mode == "ranked" and not submission.is_eligible
        return NOT_RANKED if is_unranked else OK
    return INFRASTRUCTURE if submission.outcome == "infra_failed" else FAILED


@dataclass(frozen=True)
class SubmissionQuery:
    """Which submission; with `wait_s`, once it is over; with `save`, its files into a folder."""

    number: int
    wait_s: float | None
    save: Path | None
    as_json: bool


async def show_submission(api: Api, disk: Disk, screen: Screen, query: SubmissionQuery) -> int:
    """Show a submission; return its exit code."""
    if query.wait_s is None:
        answer = await api.get(FullSubmission, "submissions", query.number)
    else:
        (answer,) = await wait_until_over(api, screen, [query.number], query.wait_s)
    submission = answer.value
    if query.as_json:
        screen.json(answer.document)
    else:
        _print_submission(screen, submission)
    if query.save is not None:
        for file in submission.files:
            pieces = api.download(query.number, file.name)
            screen.note(f"saved {await disk.save(query.save, file.name, pieces)}")
    return exit_code(submission)


def _print_submission(screen: Screen, submission: FullSubmission) -> None:
    screen.say(
        f"{submission.name or 'a file'} by {submission.participant or NO_VALUE}, "
        f"{submission.mode} for {submission.problem} "
        f"version {submission.problem_number} on {submission.gpu}, "
        f"received {instant_text(submission.received_at)}"
    )
    for note in (*note_lines(submission), *system_lines(submission), *stage_lines(submission)):
        screen.say(note)
    if submission.cases:
        screen.table(case_table(submission.cases))
    if submission.files:
        screen.table(file_table(submission.files))
    screen.table(timeline_table(submission.timeline))
    if not submission.is_over:
        screen.say(f"submission {submission.number}: {submission_progress(submission).whole}")
        screen.say(
            f"state {submission.state} since {instant_text(submission.state_since)}, until "
            f"{instant_text(submission.state_deadline_at)} at the latest: "
            f"{submission.state_owner} owes the next step"
        )
        return
    for line in outcome_lines(submission):
        screen.say(line)
    if submission.outcome == "passed":
        for line in log_lines(submission):
            screen.say(line)


@dataclass(frozen=True)
class SubmissionListQuery:
    """Which submissions to list: the caller's or everybody's, and how many."""

    problem: str | None
    is_all: bool
    limit: int
    as_json: bool
    tag: str | None = None


async def list_submissions(api: Api, screen: Screen, query: SubmissionListQuery) -> int:
    """List submissions, newest first. Raises Refused for tags of others."""
    if query.is_all and query.tag:
        raise Refused("usage", "a tag is among your own: leave out --all, or --tag", "tag")
    filters = {"problem": query.problem, "tag": query.tag}
    given_filters = {name: text for name, text in filters.items() if text}
    answer: Response[NewestSubmissions] | Response[OwnSubmissions]
    if query.is_all:
        answer = await api.get(NewestSubmissions, "submissions", **given_filters, limit=query.limit)
    else:
        answer = await api.get(
            OwnSubmissions, "me", "submissions", **given_filters, limit=query.limit
        )
    submissions = answer.value.items
    return show_answer(screen, answer, submission_table(submissions), as_json=query.as_json)


async def trace(api: Api, screen: Screen, number: int, *, as_json: bool) -> int:
    """Show every event of a submission, its jobs and its runs, with actors and times."""
    answer = await api.get(FullSubmission, "submissions", number)
    submission = answer.value
    if as_json:
        items = answer.document["timeline"]
        screen.json({"number": number, "state": submission.state, "items": items})
    else:
        screen.table(trace_table(submission))
    return OK


def trace_table(submission: FullSubmission, zone: tzinfo | None = None) -> Table:
    """List every event of a submission, its jobs and its runs, with actors and times."""
    rows, previous = [], None
    for moment in submission.timeline:
        rows.append(
            (
                str(moment.seq),
                instant_text(moment.at, zone),
                # Clocks of several machines may disagree.
                "" if previous is None else f"+{(moment.at - previous.at).total_seconds():.3f} s",
                moment.type,
                one_line(moment.actor) or NO_VALUE,
                one_line(moment.note),
            )
        )
        previous = moment
    columns = ("seq", "when", "after", "event", "actor", "note")
    return Table(f"trace of submission {submission.number}", columns, rows)


def case_table(results: Sequence[Case]) -> Table:
    """List how each case of a run ended."""
    rows = [
        (
            case.stage,
            _case_name(case),
            case.verdict,
            time_text(case.time_us),
            interval_text(case.interval_us),
            null_text(case.null_us),
            case.grade or NO_VALUE,
            one_line(case.message),
        )
        for case in results
    ]
    columns = ("stage", "case", "verdict", "time", "interval", "null call", "grade", "message")
    rates = [roofline_text(case.roofline) for case in results]
    table = insert_column(Table("cases", columns, rows), "roofline", rates)
    return insert_column(table, "speed-up", [speedups_text(case.vs_baseline) for case in results])


def _case_name(case: Case) -> str:
    """Return a case's name, marked if the case is hidden."""
    name = one_line(case.name)
    return f"hidden: {name}" if case.is_hidden and name != HIDDEN else name


def file_table(downloads: Sequence[File]) -> Table:
    """List the files of a run that can be downloaded."""
    rows = [
        (one_line(file.name, 100), file.media or NO_VALUE, f"{file.bytes:,}") for file in downloads
    ]
    return Table("files", ("file", "media", "bytes"), rows)


def timeline_table(moments: Sequence[TimelineEntry], zone: tzinfo | None = None) -> Table:
    """List what happened to a submission, in order."""
    rows = [
        (str(moment.seq), instant_text(moment.at, zone), moment.type, one_line(moment.note))
        for moment in moments
    ]
    return Table("timeline", ("seq", "when", "event", "note"), rows)


def submission_table(summaries: Sequence[SubmissionLine], zone: tzinfo | None = None) -> Table:
    """List submissions, newest first."""
    rows = [
        (
            str(summary.number),
            summary.participant or NO_VALUE,
            summary.problem,
            summary.gpu,
            summary.mode,
            one_line(summary.name, 40),
            summary.verdict or summary.outcome or summary.state,
            time_text(summary.score_us),
            summary.tag or NO_VALUE,
            instant_text(summary.received_at, zone),
        )
        for summary in summaries
    ]
    columns = (
        *("number", "participant", "problem", "GPU type", "mode"),
        *("file", "verdict", "score", "tag", "when"),
    )
    pools = [numbers_text(summary.pooled_over) or NO_VALUE for summary in summaries]
    return insert_column(Table("submissions", columns, rows), "pooled over", pools)
