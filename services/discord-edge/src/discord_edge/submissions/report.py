"""The report on a finished submission, and the comparison of two."""

import contextlib
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from discord_edge import wording
from discord_edge.platform_api import PlatformApi
from shared.api.leaderboards import ComparedCase, Comparison
from shared.api.submissions import FullSubmission
from shared.errors import Refused
from shared.presentation.report_parts import (
    captured_log,
    stage_lines,
    system_lines,
    time_lines,
    verdict_text,
)
from shared.presentation.result_card import (
    ResultCard,
    bar_lines,
    card_lines,
    make_result_card,
    standing_lines,
)
from shared.presentation.run_files import (
    KERNELS,
    SAMPLES,
    TABLE,
    read_kernel_times,
    read_kernel_usage,
)
from shared.presentation.units import escape_control_characters, one_line, time_text

KERNELS_MAX = 8
KERNEL_NAME_MAX = 32
LINE_MAX = 300
CASES_MAX = 30
# Larger files are not fetched even if Discord would take them; the report links to them.
FETCH_BYTES_MAX, TOGETHER_BYTES_MAX = 8 * 1024 * 1024, 20 * 1024 * 1024
FETCHES_MAX, FILES_MAX = 7, 50
# For programs, and rarely requested; the answer lists it.
OMITTED = frozenset({SAMPLES})


def kernel_lines(table: bytes) -> list[str]:
    """Return the first rows of a table written by torch's profiler; empty for any other text.

    >>> kernel_lines(b"  Name    Self CPU    # of Calls  \\n aten::mm    33.2ms    1  \\n")
    ['kernel    self time  calls', 'aten::mm     33.2ms      1']
    """
    rows = [
        (one_line(row.kernel, KERNEL_NAME_MAX), one_line(row.self_time, 12), one_line(row.calls, 8))
        for row in read_kernel_times(table)[:KERNELS_MAX]
    ]
    if not rows:
        return []
    table_rows = [("kernel", "self time", "calls"), *rows]
    widths = [max(len(row[column]) for row in table_rows) for column in range(3)]
    return [
        f"{name.ljust(widths[0])}  {time.rjust(widths[1])}  {calls.rjust(widths[2])}"
        for name, time, calls in table_rows
    ]


def headline(submission: FullSubmission) -> str:
    """Say in one line how a submission ended; a failure with the first line of its error."""
    card, ranking = make_result_card(submission), submission.ranking
    error = f": {card.failure.message[0]}" if card.failure and card.failure.message else ""
    score = f", score {time_text(ranking.score_us)}" if ranking and ranking.score_us else ""
    rank = f", rank {ranking.rank}" if ranking and ranking.rank else ""
    return wording.escaped(f"{card.verdict}{error}{score}{rank}")


def report_card(
    submission: FullSubmission, files: Iterable[wording.Attachment] = ()
) -> wording.Card:
    """Build the report on a submission, with the files of its run."""
    run_files = list(files)
    card = make_result_card(submission)
    error, more_errors = _fit_lines(card.failure.error if card.failure else [])
    chars_left = wording.BLOCK_MAX - sum(len(line) + 1 for line in error)
    details, more_details = _fit_lines(_detail_lines(card, submission, run_files), chars_left)
    if dropped_count := more_errors + more_details:
        details.append(f"… {dropped_count} more lines are in the file")
    log = captured_log(submission)
    # The run's files are attached unchanged; what the card shortens is complete in our own file.
    text_parts = (stage_lines(submission), time_lines(submission.cases), system_lines(submission))
    text = "\n".join([*card_lines(card), *_join_parts(*text_parts, log)])
    text_report = wording.Attachment(f"report-{submission.number}.txt", text.encode())
    has_more = dropped_count or bool(log)
    symbol = "✅" if card.is_good else "❌"
    verdict, heading = wording.escaped(card.verdict, 80), wording.escaped(card.heading, 60)
    took = f" in {card.took}" if card.took else ""
    problem, gpu = wording.escaped(submission.problem, 100), wording.escaped(submission.gpu, 40)
    parts = [
        f"{symbol} **{verdict}** · {heading}{took}",
        *([wording.fenced("\n".join(error))] if error else []),
        *_prose_lines(card),
        *([wording.fenced("\n".join(details))] if details else []),
    ]
    return wording.Card(
        title=f"#{submission.number} {problem} on {gpu}",
        body="\n".join(parts),
        colour=wording.GREEN if card.is_good else wording.RED,
        footer=one_line(" · ".join(system_lines(submission)), wording.FOOTER_MAX),
        files=(text_report, *run_files) if has_more else tuple(run_files),
        hint=f"`warpboard submission show {submission.number} --save DIRECTORY` fetches all files",
    )


def _prose_lines(card: ResultCard) -> list[str]:
    """Return what to do about a failure, and the score and rank or why there is none."""
    failure = card.failure
    lines = [f"**{wording.escaped(failure.next_step)}**"] if failure else []
    chars_left = wording.HEAD_MAX
    for line in ([failure.cases] if failure and failure.cases else []) + standing_lines(card):
        short = wording.escaped(line, LINE_MAX)
        chars_left -= len(short) + 1
        if chars_left > 0:
            lines.append(short)
    return lines


def _detail_lines(
    card: ResultCard, submission: FullSubmission, files: Sequence[wording.Attachment]
) -> list[str]:
    tables = [file.data or b"" for file in files if file.name.endswith(TABLE)]
    kernels = [line for table in tables for line in kernel_lines(table)]
    usages = [
        usage
        for file in files
        if file.name == KERNELS
        for usage in read_kernel_usage(file.data or b"")
    ]
    kernels += [usage.line for usage in usages[:KERNELS_MAX]]
    printed = card.failure.printed if card.failure else []
    stages, times = stage_lines(submission), time_lines(submission.cases)
    return _join_parts(bar_lines(card.bars), stages, times, kernels, printed)[1:]


def _join_parts(*parts: Sequence[str]) -> list[str]:
    return [line for part in parts if part for line in ("", *part)]


def _fit_lines(lines: Sequence[str], chars_max: int = wording.BLOCK_MAX) -> tuple[list[str], int]:
    """Return as many of the first lines as fit, and the number of lines left out."""
    fitting: list[str] = []
    chars_left = chars_max
    for line in lines:
        short = wording.shorten(escape_control_characters(line), LINE_MAX)
        chars_left -= len(short) + 1
        if chars_left < 0:
            break
        fitting.append(short)
    return fitting, len(lines) - len(fitting)


def public_times(submission: FullSubmission) -> str:
    """Render the timed cases of a ranked result for everybody; empty if there are none."""
    # A block of nothing but backticks grows by half.
    lines, dropped_count = _fit_lines(time_lines(submission.cases), wording.CONTENT_MAX // 2)
    if not lines:
        return ""
    more = [f"… {dropped_count} more lines"] if dropped_count else []
    return wording.fenced("\n".join([*lines, *more]))


def comparison_card(comparison: Comparison) -> wording.Card:
    """Show the score and each case of both submissions; the diff of the sources is attached."""
    rows = (comparison.score, *comparison.cases[:CASES_MAX])
    diff = comparison.diff
    body = "\n".join(map(_compared_case_line, rows))
    return wording.Card(
        title=f"#{comparison.b.number} compared with #{comparison.a.number}",
        body=wording.fenced(wording.shorten(body, wording.CARD_MAX)),
        footer="a ratio under 1 means that the second submission is faster",
        files=(wording.Attachment("difference.diff", diff.encode()),) if diff else (),
    )


def _compared_case_line(case: ComparedCase) -> str:
    """Return one case: the times, where there are any, and the outcome or both verdicts.

    >>> case = ComparedCase(name="n=1", stage="test", a_us=None, b_us=None, ratio=None, ci95=None,
    ...     outcome="", a_verdict="passed", b_verdict="wrong_answer")
    >>> _compared_case_line(case)
    'n=1: passed, then wrong answer'
    """
    a, b = (
        "not run" if verdict is None else verdict_text(verdict)
        for verdict in (case.a_verdict, case.b_verdict)
    )
    outcome = case.outcome if a == b else f"{a}, then {b}"
    has_times = case.a_us or case.b_us
    times = f"{time_text(case.a_us)} to {time_text(case.b_us)}, " if has_times else ""
    ratio = f"ratio {case.ratio:.3g}, " if case.ratio is not None else ""
    return f"{one_line(case.name, 40)}: {times}{ratio}{outcome}"


async def fetch_report(api: PlatformApi, submission: FullSubmission) -> wording.Card:
    """Build the report on a finished submission, with its files. Raises `Failed`."""
    result = msgspec.json.encode(msgspec.structs.replace(submission, source=None))
    attachments: list[wording.Attachment] = []
    bytes_left = TOGETHER_BYTES_MAX
    for file in [file for file in submission.files if file.name not in OMITTED][:FILES_MAX]:
        path = f"/v1/submissions/{submission.number}/files/{quote(file.name, safe='')}"
        data = None
        if file.bytes <= min(bytes_left, FETCH_BYTES_MAX) and len(attachments) < FETCHES_MAX:
            # The file may have been deleted; the rest of the report is still worth sending.
            with contextlib.suppress(Refused):
                data = await api.get_file(path)
        attachments.append(wording.Attachment(file.name, data, file.bytes, api.link(path)))
        bytes_left -= len(data or b"")
    # Files for people come before files for programs.
    attachments.append(wording.Attachment("result.json", msgspec.json.format(result, indent=1)))
    return report_card(submission, attachments)
