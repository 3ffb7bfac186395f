"""Commands that submit files and show submissions."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

import click
import msgspec
from click import IntRange

from shared.api.accounts import Preferences
from shared.api.agents import Agents
from shared.api.cases import Case
from shared.api.submissions import (
    NCU_NAME_BASES,
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
from shared.errors import Failed, Refused
from shared.licences import CHOICES, LICENCES
from shared.presentation.failure import case_error, first_failing, is_same_failure
from shared.presentation.outcome import (
    note_lines,
    printed_lines,
    roofline_text,
    speedup_cell,
    speedups_text,
)
from shared.presentation.report_parts import (
    stage_lines,
    submission_progress,
    system_lines,
)
from shared.presentation.result_card import card_lines, make_result_card
from shared.presentation.run_files import KERNELS, KERNELS_BYTES_MAX, read_kernel_usage
from shared.presentation.units import (
    NO_VALUE,
    first_line,
    instant_text,
    interval_text,
    null_text,
    numbers_text,
    one_line,
    time_text,
)
from shared.problems.submission_file import NUMBER_MAX, late_directives, read_directives
from shared.source_files import SOURCE_FILES_MAX, SourceFile, check_files
from warpboard.api import Api, Response
from warpboard.context import AppContext
from warpboard.domain.output import FAILED, INFRASTRUCTURE, NOT_RANKED, OK, Table, make_table, worst
from warpboard.files import (
    decode_source,
    read_submission,
    save_download,
    write_file,
    write_files,
)
from warpboard.service.answers import (
    balance_text,
    list_own_submissions,
    resolve_gpus,
    retry_until_available,
    wait_until_over,
)
from warpboard.terminal import options, web
from warpboard.terminal.options import api_command, ask, can_ask, confirm
from warpboard.terminal.program import NAME

LIMIT_MAX = 200
REPEAT_S_MAX = 30.0
HIDDEN = "hidden"
# The platform's code for a submission that nobody can run now.
NO_AGENT, UNKNOWN_GPU, NO_LICENCE = "no_agent", "unknown_gpu", "licence_missing"
# The message of a case in a table.
MESSAGE_LENGTH_MAX = 80


@api_command(
    "submit kernel.py --leaderboard matmul --gpu CPU --mode ranked",
    "submit kernel.py helper.cu lib/tile.cuh --mode test",
    "submit kernel.py --mode test --json --output verdict.json",
    parameters=(
        # They are read before a platform is looked for.
        click.argument(
            "files",
            metavar="FILES...",
            nargs=-1,
            required=True,
            type=options.SOURCE_PATH,
            callback=lambda _context, _argument, paths: read_submission(*paths),
        ),
        click.option(
            "--leaderboard",
            type=options.SLUG,
            metavar="SLUG",
            help="Default: the file's #!POPCORN leaderboard line.",
        ),
        options.SUBMISSION_GPUS,
        options.mode("ranked"),
        click.option(
            "--case",
            type=IntRange(0),
            default=0,
            metavar="N",
            help="With mode profile: the only timed case, from 1 on; 0 is every one.",
        ),
        click.option(
            "--ncu-kernel-name",
            default="",
            metavar="NAME",
            help="With mode profile: the kernels that ncu captures, or regex:EXPRESSION.",
        ),
        click.option(
            "--ncu-kernel-name-base",
            type=click.Choice(NCU_NAME_BASES),
            default=None,
            help="With mode profile: which form of the name that is.",
        ),
        click.option(
            "--ncu-launch-count",
            type=IntRange(0),
            default=0,
            metavar="N",
            help="With mode profile: how many kernels ncu captures of each case; 0 is 20.",
        ),
        options.PRECISION,
        click.option(
            *("--wait/--no-wait", "is_waiting"),
            default=True,
            show_default=True,
            help="Wait for the verdict.",
        ),
        click.option(
            "--output",
            type=options.NEW_FILE,
            metavar="FILE",
            help="Also write the whole answer as JSON into FILE.",
        ),
        click.option("--note", default="", metavar="TEXT", help="A note that only you see."),
        click.option(
            "--tag",
            default="",
            metavar="TAG",
            help="A word to list it by: submission list --tag TAG.",
        ),
        click.option(
            "--runner",
            default="",
            metavar="LAUNCHER",
            help="The launcher that starts an agent for it; submission queue lists them.",
        ),
        click.option(
            "--licence",
            type=click.Choice(["none", *LICENCES]),
            help="Of the source in releases; none leaves it out. Default: that of your account.",
        ),
        click.option(
            "--parent",
            type=click.IntRange(1, NUMBER_MAX),
            metavar="NUMBER",
            help="The submission that it is derived from.",
        ),
        web.WEB,
        options.YES,
        options.TIMEOUT,
    ),
)
async def submit(
    context: AppContext,
    api: Api,
    *,
    files: tuple[SourceFile, ...],
    leaderboard: str | None,
    gpus: tuple[str, ...],
    mode: str,
    case: int,
    ncu_kernel_name: str,
    ncu_kernel_name_base: str | None,
    ncu_launch_count: int,
    precision: float,
    output: Path | None,
    note: str,
    tag: str,
    runner: str,
    licence: str | None,
    parent: int | None,
    timeout_s: float,
    is_waiting: bool,
    is_web: bool,
    is_sure: bool,
) -> int:
    """Submit FILES and wait for the verdict.

    The first one is the entry file, which defines the kernel. Others, where the problem allows
    them, lie beside it. A folder stands for all its source files, of which submission.* or kernel.*
    is the entry file. A .json file is a solution of a FlashInfer-Trace definition.

    If no agent can run it, or if you have not chosen a licence for your sources before you submit
    ranked, it asks first, unless --yes is given. Without a terminal, or with --json, it only says
    so on stderr and submits.

    The exit code tells how it ended: 0 passed, 1 not passed, 2 refused, 3 infrastructure,
    4 your quota is used up or too many of your submissions are open, 5 passed but not eligible for
    the leaderboard.
    """
    screen, (entry, *others) = context.screen, files
    directives = read_directives(decode_source(entry.data))
    problem = leaderboard or directives.leaderboard
    if problem is None:
        raise Refused(
            "unknown_leaderboard",
            "say for which leaderboard: --leaderboard NAME, or #!POPCORN leaderboard NAME "
            "as the file's first line",
        )
    request = SubmissionRequest(
        *(entry.name, entry.data, problem, mode, gpus, case, note, tag, runner),
        others=tuple(others),
        precision=precision,
        ncu_kernel_name=ncu_kernel_name,
        ncu_kernel_name_base=ncu_kernel_name_base or "",
        ncu_launch_count=ncu_launch_count,
        licence=licence or "",
        parent=parent or 0,
    )
    if not is_sure and not context.as_json and can_ask():
        request = msgspec.structs.replace(request, waits_for_agent=False, needs_licence=True)
    _note_late_directives(context, entry.name, decode_source(entry.data))
    answer = await _send_submission(context, api, request, is_web=is_web)
    if answer is None:
        screen.note("nothing was submitted")
        return FAILED
    receipts = answer.value.submissions
    if not is_waiting:
        _output_answer(context, output, answer.document)
        for receipt in () if context.as_json else receipts:
            screen.say(_received_line(problem, receipt))
            command = context.command(f"submission show {receipt.number} --wait")
            screen.note(f"wait for its verdict: {command}")
        return OK
    for receipt in receipts:
        screen.note(_received_line(problem, receipt))
    answers = await _wait_for_all(context, api, [receipt.number for receipt in receipts], timeout_s)
    return _show_ends(context, output, answers)


def _note_late_directives(context: AppContext, file: str, text: str) -> None:
    for number in late_directives(text):
        problem_text = "a directive below the leading comments does nothing"
        context.screen.note(f"warpboard: {file}, line {number}: {problem_text}")


async def _send_submission(
    context: AppContext, api: Api, request: SubmissionRequest, *, is_web: bool
) -> Response[SubmissionReceipts] | None:
    """Submit until the platform answers, once; with `is_web`, open the pages of what it took in.

    If nobody can run it now, or a licence is not chosen, ask first; None means that the answer was
    no. Raises Refused and Failed.
    """
    key = new_id()
    try:
        with context.screen.live([NAME]) as show:
            answer = await retry_until_available(
                lambda: api.submit(request, key),
                REPEAT_S_MAX,
                lambda trouble: show(NAME, trouble),
            )
    except Refused as refused:
        if refused.code == UNKNOWN_GPU and not request.gpus:
            raise await _ask_for_gpu(api, request.problem, refused) from refused
        if refused.code not in (NO_AGENT, NO_LICENCE):
            raise
        context.screen.note(f"warpboard: {refused.reason}")
        if refused.code == NO_LICENCE:
            agreed = await _ask_for_licence(api, request)
        else:
            agreed = await _ask_to_wait(request)
        if agreed is None:
            return None
        return await _send_submission(context, api, agreed, is_web=is_web)
    receipts = answer.value.submissions
    notices = [answer.value.licence_notice, *(receipt.warning for receipt in receipts)]
    for notice in dict.fromkeys(filter(None, notices)):
        context.screen.note(f"warpboard: {notice}")
    for receipt in receipts if is_web else ():
        page = web.open_page(context, web.site_path("submissions", receipt.number))
        context.screen.note(page.line)
    return answer


async def _ask_to_wait(request: SubmissionRequest) -> SubmissionRequest | None:
    if not await confirm("submit anyway?"):
        return None
    return msgspec.structs.replace(request, waits_for_agent=True)


async def _ask_for_licence(api: Api, request: SubmissionRequest) -> SubmissionRequest | None:
    """Let the participant choose the licence of all their sources; None if they choose none."""
    choice = await ask(f"licence of your sources ({', '.join(CHOICES)}): ")
    if choice not in CHOICES:
        return None
    try:
        await api.act(Preferences, "PUT", "me", "preferences", body={"licence": choice})
    except Refused as refused:
        advice = "--licence chooses it for this submission alone"
        raise Refused(refused.code, f"{refused.reason}; {advice}", refused.field) from refused
    return msgspec.structs.replace(request, needs_licence=False)


async def _ask_for_gpu(api: Api, problem: str, refused: Refused) -> Refused:
    """Return the refusal of a submission without a GPU type, with those that have an agent."""
    open_gpus = await resolve_gpus(api, problem, are_open=True)
    agents = (await api.get(Agents, "agents")).value.items
    with_agent = {agent.gpu for agent in agents if agent.is_alive}
    served = [gpu for gpu in open_gpus if gpu in with_agent]
    if not served:
        return Refused(refused.code, f"{refused.reason}; none has an agent now", "--gpu")
    others = [gpu for gpu in open_gpus if gpu not in served]
    advice = " or ".join(f"--gpu {gpu}" for gpu in served)
    without = f"; without an agent now: {', '.join(others)}" if others else ""
    return Refused(refused.code, f"choose a GPU type: {advice}{without}")


def _show_ends(
    context: AppContext, output: Path | None, answers: Sequence[Response[FullSubmission]]
) -> int:
    """Print how submissions ended, and return the worst of their exit codes."""
    document = {"submissions": [answer.document for answer in answers]}
    _output_answer(context, output, document)
    submissions = [answer.value for answer in answers]
    if not context.as_json:
        for submission in submissions:
            context.show(None, card_lines(make_result_card(submission)))
    return worst(exit_code(submission) for submission in submissions)


async def _wait_for_all(
    context: AppContext, api: Api, numbers: Sequence[int], timeout_s: float
) -> list[Response[FullSubmission]]:
    """Return each submission once all are over; an interrupt prints how to continue."""
    try:
        return await wait_until_over(dict.fromkeys(numbers, api), context.screen, timeout_s)
    except asyncio.CancelledError:
        for number in numbers:
            show, cancel = f"submission show {number} --wait", f"submission cancel {number}"
            context.screen.note(
                f"submission {number} keeps running: `{context.command(show)}` waits again, "
                f"`{context.command(cancel)}` ends it"
            )
        raise


def _output_answer(context: AppContext, output: Path | None, document: object) -> None:
    if context.as_json:
        context.screen.json(document)
    if output is not None:
        text = msgspec.json.format(msgspec.json.encode(document), indent=2)
        write_file(output, text + b"\n")
        context.screen.note(f"the whole answer is in {output}")


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


@api_command(
    "submission list --problem matmul",
    parameters=(
        *options.SUBMISSION_FILTERS,
        click.option("--tag", metavar="TAG", help="Only yours with this tag."),
        click.option("--all", "is_all", is_flag=True, help="List everybody's that you may see."),
        click.option(
            "--limit", type=IntRange(1, LIMIT_MAX), default=50, show_default=True, help="How many."
        ),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def list_submissions(
    context: AppContext, api: Api, limit: int, *, is_all: bool, **filters: str | None
) -> int:
    """List your newest submissions."""
    filters = {name: text or None for name, text in filters.items()}
    if is_all and filters["tag"]:
        raise Refused("usage", "a tag is among your own: leave out --all, or --tag", "tag")
    answer: Response[NewestSubmissions] | Response[OwnSubmissions]
    if is_all:
        answer = await api.get(NewestSubmissions, "submissions", **filters, limit=limit)
    else:
        answer = await list_own_submissions(api, **filters, limit=limit)
    items = answer.value.items
    owner = (items[0].participant if items else None) or context.participant
    title = f"submissions of {owner}" if owner and not is_all else "submissions"
    return context.show(answer.document, [submission_table(items, title)])


@api_command(
    "submission show 12 --save twelve",
    parameters=(
        options.NUMBER,
        click.option("--wait", "is_waiting", is_flag=True, help="Wait until it is over."),
        options.SAVE,
        web.WEB,
        options.TIMEOUT,
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def show_submission(
    context: AppContext,
    api: Api,
    number: int,
    save: Path | None,
    timeout_s: float,
    *,
    is_waiting: bool,
    is_web: bool,
) -> int:
    """Show submission NUMBER: verdict, cases, history and output.

    With --web, it opens the page of the submission instead.
    """
    if is_web:
        return web.show_page(context, web.site_path("submissions", number))
    if is_waiting:
        (answer,) = await _wait_for_all(context, api, [number], timeout_s)
    else:
        answer = await api.get(FullSubmission, "submissions", number)
    submission = answer.value
    parts = list(_submission_parts(submission))
    for file in submission.files:
        if file.name == KERNELS and file.bytes <= KERNELS_BYTES_MAX and not context.as_json:
            with contextlib.suppress(Refused, Failed):
                text = b"".join([piece async for piece in api.download(number, KERNELS)])
                parts += [usage.line for usage in read_kernel_usage(text)]
    context.show(answer.document, parts)
    if save is not None:
        for file in submission.files:
            pieces = api.download(number, file.name)
            context.screen.note(f"saved {await save_download(save, file.name, pieces)}")
    return exit_code(submission)


def _submission_parts(submission: FullSubmission) -> Iterator[str | Table]:
    if submission.is_over:
        yield from card_lines(make_result_card(submission))
        yield ""
    yield (
        f"{submission.name or 'a file'} by {submission.participant or NO_VALUE}, "
        f"{submission.mode} for {submission.problem} "
        f"version {submission.problem_version} on {submission.gpu}, "
        f"received {instant_text(submission.received_at)}"
    )
    yield from note_lines(submission)
    yield from system_lines(submission)
    yield from stage_lines(submission)
    if submission.cases:
        yield case_table(submission.cases)
    if submission.files:
        rows = [
            {
                "file": one_line(file.name, 100),
                "media": file.media or None,
                "bytes": f"{file.bytes:,}",
            }
            for file in submission.files
        ]
        yield make_table("files", rows)
    yield timeline_table(submission.timeline)
    if not submission.is_over:
        yield f"submission {submission.number}: {submission_progress(submission).whole}"
        yield (
            f"state {submission.state} since {instant_text(submission.state_since)}; "
            f"{submission.state_owner} must act by {instant_text(submission.state_deadline_at)}"
        )
    elif submission.outcome == "passed" or submission.verdict == "compile_error":
        yield from printed_lines(submission)


@api_command("submission status 12", parameters=(options.NUMBER,), access=options.VIEWER)
async def show_status(context: AppContext, api: Api, number: int) -> int:
    """Show where submission NUMBER is, in one line."""
    answer = await api.get(FullSubmission, "submissions", number)
    submission, document = answer.value, answer.document
    names = ("number", "problem", "gpu", "mode", "state", "is_over", "outcome", "verdict")
    more_names = ("score_us", "queue", "progress", "ranking", "version")
    progress = f"submission {number}: {submission_progress(submission).whole}"
    context.show(
        {name: document.get(name) for name in (*names, *more_names)},
        card_lines(make_result_card(submission)) if submission.is_over else [progress],
    )
    return exit_code(submission)


@api_command(
    "submission source 12 > kernel.py",
    "submission source 12 --save twelve",
    parameters=(
        options.NUMBER,
        click.option(
            "--save",
            type=options.NEW_FOLDER,
            metavar="DIR",
            help="Save all its files in this folder.",
        ),
    ),
    access=options.VIEWER,
)
async def show_source(context: AppContext, api: Api, number: int, *, save: Path | None) -> int:
    """Print the entry file of submission NUMBER, or save all its files.

    It is one's own, or one that its problem shows to others. The names of its other files are on
    stderr.
    """
    answer = await api.get(FullSubmission, "submissions", number, source=True)
    entry, *others = answer.value.source_files
    if save is not None:
        check_files(entry.name, [SourceFile(it.name, b"") for it in others], SOURCE_FILES_MAX, ())
        write_files(save, {file.name: file.text.encode() for file in (entry, *others)})
    if context.as_json:
        files = answer.document["source_files"]
        names = {"number": number, "name": answer.value.name, "source": entry.text}
        context.screen.json(names | {"source_files": files})
    elif save is not None:
        context.screen.say(f"saved {', '.join(file.name for file in (entry, *others))} in {save}")
    else:
        context.screen.source(entry.text)
        for file in others:
            context.screen.note(f"{file.name} lies beside it: --save DIR saves all files")
    return OK


def case_table(results: Sequence[Case]) -> Table:
    """List how each case of a run ended; the result card describes the first failure.

    Columns without any value are left out, and those that lines have no room for, never the time.
    """
    described = first_failing(results)
    rows = [
        {
            "stage": case.stage,
            "case": _case_name(case),
            "verdict": case.verdict,
            "time": time_text(case.time_us),
            "interval": interval_text(case.interval_us),
            "null call": null_text(case.null_us),
            "grade": case.grade or None,
            "roofline": roofline_text(case.roofline),
            "speed-up": speedups_text(case.vs_baseline),
            "of the yardstick": speedup_cell(case.speedup, case.speedup_interval),
            "message": "see above"
            if described and is_same_failure(case, described)
            else one_line(case_error(case), MESSAGE_LENGTH_MAX) or None,
        }
        for case in results
    ]
    return make_table(
        "cases",
        rows,
        optional=(
            *("time", "interval", "null call", "grade", "roofline", "speed-up"),
            *("of the yardstick", "message"),
        ),
        extra=("null call", "grade", "speed-up", "roofline", "of the yardstick", "interval"),
    )


def _case_name(case: Case) -> str:
    name = one_line(case.name)
    return f"hidden: {name}" if case.is_hidden and name != HIDDEN else name


def timeline_table(moments: Sequence[TimelineEntry], zone: tzinfo | None = None) -> Table:
    """List what happened to a submission, in order."""
    rows = [
        {
            "seq": moment.seq,
            "when": moment.at,
            "event": moment.type,
            # The result card has the rest of a reason.
            "note": first_line(moment.note),
        }
        for moment in moments
    ]
    return make_table("timeline", rows, zone)


def _file_text(submission: SubmissionLine) -> str:
    """Name the entry file of a submission, and say if there are others."""
    name = one_line(submission.name, 40)
    return f"{name} and others".strip() if submission.has_several_files else name


def submission_table(summaries: Sequence[SubmissionLine], title: str = "submissions") -> Table:
    """List submissions, newest first."""
    rows = [
        {
            "number": summary.number,
            "participant": summary.participant or None,
            "problem": summary.problem,
            "GPU type": summary.gpu,
            "mode": summary.mode,
            "file": _file_text(summary),
            "verdict": summary.verdict or summary.outcome or summary.state,
            "score": time_text(summary.score_us),
            "tag": summary.tag or None,
            "pooled over": numbers_text(summary.pooled_over) or None,
            "when": summary.received_at,
        }
        for summary in summaries
    ]
    is_of_several = len({summary.participant for summary in summaries}) > 1
    people = () if is_of_several else ("participant",)
    return make_table(
        title,
        rows,
        optional=("pooled over",),
        extra=("pooled over", *people, "tag", "file", "when", "mode"),
    )
