"""Commands for leaderboards: show, chart and join them, and their records and histories."""

import sys
from collections.abc import Coroutine, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click
from click import IntRange

from shared.api.baselines import Baseline, MilestoneCondition, OwnMilestone, OwnMilestones
from shared.api.leaderboards import (
    Entry,
    History,
    Leaderboard,
    Record,
    Records,
)
from shared.api.problems import Problems
from shared.errors import Failed, Refused
from shared.presentation.outcome import share_text, speedups_text
from shared.presentation.units import (
    NO_VALUE,
    TIED_LEGEND,
    count_text,
    instant_text,
    interval_text,
    numbers_text,
    one_line,
    rank_text,
    time_text,
)
from warpboard.domain.tables import Table, insert_column
from warpboard.service.answers import resolve_gpus
from warpboard.service.context import AppContext
from warpboard.service.ports import Api
from warpboard.terminal import options, plots
from warpboard.terminal.accounts import resolve_name
from warpboard.terminal.command_types import api_command, local_command
from warpboard.terminal.problems import show_problems

CODE_LENGTH_MAX = 1024
MARK = "baseline"


# A problem has a leaderboard for each of its GPU types.
@api_command("leaderboard list", access=options.viewer_options)
async def list_leaderboards(context: AppContext, api: Api) -> int:
    """List every problem with its GPU types and deadline."""
    return await show_problems(context, api)


@local_command(
    "leaderboard show matmul CPU",
    "leaderboard show matmul CPU --version 1",
    "leaderboard show matmul CPU --plot --png progress.png",
    "leaderboard show matmul CPU --samples 12",
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.argument("gpu", required=False),
        click.option(
            "--as-of", type=options.Instant(), help="The leaderboard at that instant; default: now."
        ),
        options.VERSION,
        click.option("--plot", "is_plotted", is_flag=True, help="Draw its progress over time."),
        click.option(
            "--samples",
            type=IntRange(min=1),
            metavar="NUMBER",
            help="Draw the times of a submission's calls.",
        ),
        click.option(
            "--png",
            type=options.NEW_FILE,
            metavar="FILE",
            help="Draw into a PNG file instead of here.",
        ),
    ),
    access=options.viewer_options,
)
async def show_leaderboards(
    context: AppContext,
    *,
    problem: str,
    gpu: str | None,
    as_of: str | None,
    version: int | None,
    samples: int | None,
    png: Path | None,
    is_plotted: bool,
) -> int:
    """Show the leaderboards of a PROBLEM, best first.

    With a GPU type, only its leaderboard. --plot and --samples draw charts instead.
    """
    if png is not None and not is_plotted and samples is None:
        raise click.UsageError("--png needs --plot or --samples")
    async with context.api(context.place) as api:
        if samples is not None:
            return plots.show_chart(context, await plots.load_spread(api, samples), png)
        if is_plotted:
            chart = await plots.load_progress(context, api, problem, gpu, version)
            return plots.show_chart(context, chart, png)
        filters = {"as_of": as_of, "version": version}
        given_filters = {name: value for name, value in filters.items() if value is not None}
        answers = [
            await api.get(Leaderboard, "leaderboards", problem, name, **given_filters)
            for name in await resolve_gpus(api, problem, gpu)
        ]
    boards = [answer.value for answer in answers]
    if as_of and any(board.as_of_at is None for board in boards):
        raise Failed(
            "the platform shows no leaderboard of the past: warpboard server audit --as-of does"
        )
    document = {"leaderboards": [answer.document for answer in answers]}
    return context.show(document, _leaderboard_parts(boards, is_single=gpu is not None))


def _leaderboard_parts(boards: Sequence[Leaderboard], *, is_single: bool) -> Iterator[str | Table]:
    """Yield the tables of leaderboards that have rows, and where the entries of others are."""
    shown_boards = [
        board
        for board in boards
        if is_single
        or board.items
        or any(baseline.score_us is not None for baseline in board.baselines)
    ]
    for board in shown_boards:
        yield leaderboard_table(board)
        if board.milestones:
            yield milestone_table(board)
    empty = [board.gpu for board in boards if board not in shown_boards]
    if empty and not is_single:
        yield f"no entry yet on {', '.join(empty)}"
    for board in boards:
        if not board.items and board.other_versions:
            yield _other_version_line(board)
    if any(entry.is_tied for board in shown_boards for entry in board.items):
        yield f"=: {TIED_LEGEND}"


def _other_version_line(board: Leaderboard) -> str:
    """Say which other version of an empty leaderboard has entries."""
    newest = board.other_versions[0]
    entries = count_text(newest.entries_count, "entry", "entries")
    arguments = f"{board.problem} {board.gpu} --version {newest.problem_version}"
    return (
        f"nothing is ranked under version {board.problem_version} on {board.gpu}; version"
        f" {newest.problem_version} has {entries}: warpboard leaderboard show {arguments}"
    )


@local_command(
    "leaderboard history matmul",
    parameters=(
        click.argument("problem", required=False, type=options.SLUG),
        options.VERSION,
    ),
    access=options.platform_options,
)
async def history(context: AppContext, problem: str | None, version: int | None) -> int:
    """Show your ranked submissions.

    With a PROBLEM, only those to it.
    """
    if version and not problem:
        raise click.UsageError("--version needs a PROBLEM")
    known_name = context.participant(context.place)
    filters = {"version": version} if version else {}
    async with context.api(context.place) as api:
        name = await resolve_name(api, known_name)
        if problem:
            slugs = [problem]
        else:
            slugs = [item.slug for item in (await api.get(Problems, "problems")).value.items]
        answers = [
            await api.get(
                History, "participants", name, "history", problem=slug, gpu=gpu, **filters
            )
            for slug in slugs
            for gpu in await resolve_gpus(api, slug)
        ]
    tables = [history_table(answer.value) for answer in answers if answer.value.items]
    return context.show(
        {"histories": [answer.document for answer in answers]},
        tables or [f"{name} has no ranked submission there that is over"],
    )


@api_command(
    "leaderboard records matmul CPU",
    parameters=(click.argument("problem", type=options.SLUG), click.argument("gpu")),
    access=options.viewer_options,
)
async def records(context: AppContext, api: Api, problem: str, gpu: str) -> int:
    """Show the records of a PROBLEM on a GPU type."""
    answer = await api.get(Records, "leaderboards", problem, gpu, "records")
    return context.show(answer.document, [record_table(problem, gpu, answer.value.items)])


@local_command(
    "leaderboard join 3p8uCz0wq1mVYk2nqkq1Jw",
    parameters=(click.argument("code"),),
    access=options.platform_options,
)
def join(context: AppContext, code: str) -> Coroutine[Any, Any, int]:
    """Accept the invite CODE to closed leaderboards.

    `-` reads the code from stdin.
    """
    stdin: Any = sys.stdin
    invite_code = stdin.readline(CODE_LENGTH_MAX).strip() if code == "-" and stdin else code
    if not invite_code:
        raise Refused(
            "invalid_invite", "stdin has no code: pipe the invite code into this command", "code"
        )
    return _join(context, invite_code)


async def _join(context: AppContext, invite_code: str) -> int:
    async with context.api(context.place) as api:
        answer = await api.join(invite_code)
    opened = answer.value.leaderboards
    line = f"{count_text(len(opened), 'leaderboard')} open to you: {', '.join(opened)}"
    return context.show(answer.document, [line])


def history_table(answer: History, zone: tzinfo | None = None) -> Table:
    """List a participant's ranked submissions on one leaderboard, newest first."""
    rows = [
        (
            str(item.number),
            instant_text(item.received_at, zone),
            one_line(item.name, 40),
            item.verdict or item.outcome or NO_VALUE,
            time_text(item.score_us),
            interval_text(item.interval_us),
            time_text(item.run_us),
            numbers_text(item.pooled_over) or NO_VALUE,
            item.grade or NO_VALUE,
            _standing_text(item.counts, item.was_best, item.code),
        )
        for item in answer.items
    ]
    columns = (
        *("number", "when", "file", "verdict", "score", "interval"),
        *("this run", "pooled over", "grade", "standing"),
    )
    title = f"{answer.participant} in {answer.problem} on {answer.gpu}, version"
    return Table(f"{title} {answer.problem_version}", columns, rows)


def _standing_text(counts: bool, was_best: bool, code: str | None) -> str:
    """Describe how a submission counted for its participant.

    >>> _standing_text(True, True, "ranked"), _standing_text(True, False, "ranked")
    ('best so far', 'counts')
    >>> _standing_text(False, False, "held")
    'does not count: held'
    """
    if not counts:
        return f"does not count: {code or NO_VALUE}"
    return "best so far" if was_best else "counts"


def record_table(
    problem: str, gpu: str, records: Sequence[Record], zone: tzinfo | None = None
) -> Table:
    """List the records of a leaderboard, newest first."""
    rows = [
        (
            instant_text(record.at, zone),
            record.participant or NO_VALUE,
            time_text(record.score_us),
            time_text(record.previous_us),
            str(record.number),
            "stands" if record.is_standing else "taken away",
        )
        for record in records
    ]
    columns = ("when", "participant", "score", "before", "number", "state")
    return Table(f"records of {problem} on {gpu}", columns, rows)


def leaderboard_table(answer: Leaderboard, zone: tzinfo | None = None) -> Table:
    """Build the table of a leaderboard, best first; `zone` defaults to this machine's."""
    lines = _merge_baselines(answer)
    rows = [
        _baseline_row(row, zone) if isinstance(row, Baseline) else _entry_row(row, zone)
        for row in lines
    ]
    columns = (
        *("rank", "participant", "score", "interval", "number", "when"),
        *("tier", "isolation", "grade"),
    )
    moment = f", as of {instant_text(answer.as_of_at, zone)}" if answer.as_of_at else ""
    title = f"{answer.problem} on {answer.gpu}, version {answer.problem_version}{moment}"
    entries = [row if isinstance(row, Entry) else None for row in lines]
    shares = [share_text(entry.roofline_fraction) if entry else NO_VALUE for entry in entries]
    ratios = [speedups_text(entry.vs_baseline) if entry else NO_VALUE for entry in entries]
    pools = [(numbers_text(entry.pooled_over) if entry else "") or NO_VALUE for entry in entries]
    table = insert_column(Table(title, columns, rows), "pooled over", pools)
    table = insert_column(table, "roofline", shares)
    duels = [(entry.duel if entry else "") or NO_VALUE for entry in entries]
    table = insert_column(table, "duel", duels)
    confirmations = [(entry.confirmation if entry else "") or NO_VALUE for entry in entries]
    table = insert_column(table, "confirmation", confirmations)
    return insert_column(table, "speed-up", ratios)


def _merge_baselines(answer: Leaderboard) -> list[Entry | Baseline]:
    """Merge the baselines, which have no rank, into the entries by time."""
    lines: list[Entry | Baseline] = list(answer.items)
    for baseline in answer.baselines:
        if baseline.score_us is not None:
            faster = [line for line in lines if (line.score_us or 0.0) <= baseline.score_us]
            lines.insert(lines.index(faster[-1]) + 1 if faster else 0, baseline)
    return lines


def _entry_row(entry: Entry, zone: tzinfo | None) -> tuple[str, ...]:
    return (
        rank_text(entry.rank, is_tied=entry.is_tied),
        entry.participant or NO_VALUE,
        time_text(entry.score_us),
        interval_text(entry.interval_us),
        str(entry.number),
        instant_text(entry.received_at, zone),
        entry.tier or NO_VALUE,
        entry.level or NO_VALUE,
        _grade_text(entry.grade, entry.is_provisional),
    )


def _baseline_row(baseline: Baseline, zone: tzinfo | None) -> tuple[str, ...]:
    """Return a baseline's row: no rank, and its name in brackets, unlike any participant's."""
    return (
        NO_VALUE,
        f"[{MARK} {baseline.name}]",
        time_text(baseline.score_us),
        interval_text(baseline.interval_us),
        NO_VALUE,
        instant_text(baseline.measured_at, zone),
        baseline.tier or NO_VALUE,
        baseline.level or NO_VALUE,
        one_line(baseline.note, 40) or NO_VALUE,
    )


def milestone_table(answer: Leaderboard, zone: tzinfo | None = None) -> Table:
    """List the milestones of a leaderboard, and how many participants reached each."""
    rows = [
        (
            one_line(milestone.title, 60),
            condition_text(milestone.when),
            str(milestone.reached),
            f"with {milestone.number}, {instant_text(milestone.reached_at, zone)}"
            if milestone.is_reached
            else NO_VALUE,
        )
        for milestone in answer.milestones
    ]
    title = f"milestones of {answer.problem} on {answer.gpu}"
    return Table(title, ("milestone", "when", "reached", "by you"), rows)


def _grade_text(grade: str, is_provisional: bool) -> str:
    """Describe how far a time can be trusted.

    >>> _grade_text("ok", False), _grade_text("noisy", True), _grade_text("", False)
    ('ok', 'noisy, provisional', '-')
    """
    return ", ".join([grade or NO_VALUE] + ["provisional"] * is_provisional)


def condition_text(condition: MilestoneCondition) -> str:
    """Describe the condition of a milestone.

    >>> condition_text(MilestoneCondition(metric="score", op="<=", value=0.0001, gpu=None))
    'score <= 100 µs'
    >>> condition_text(MilestoneCondition(metric="vs_baseline.eager", op=">=", value=2, gpu=None))
    'vs_baseline.eager >= 2'
    """
    from shared.problems.goals import SCORE  # It imports pydantic.

    is_score = condition.metric == SCORE
    value = time_text(condition.value * 1e6) if is_score else f"{condition.value:g}"
    return f"{condition.metric} {condition.op} {value}"


@api_command("leaderboard milestones", access=options.viewer_options)
async def milestones(context: AppContext, api: Api) -> int:
    """List the milestones that you reached.

    The newest is first.
    """
    answer = await api.get(OwnMilestones, "me", "milestones")
    return context.show(answer.document, [own_milestone_table(answer.value.items)])


def own_milestone_table(reached: Sequence[OwnMilestone], zone: tzinfo | None = None) -> Table:
    """List the caller's milestones, newest first."""
    rows = [
        (
            milestone.problem,
            milestone.gpu,
            one_line(milestone.title, 60),
            str(milestone.problem_version),
            str(milestone.number),
            instant_text(milestone.reached_at, zone),
        )
        for milestone in reached
    ]
    columns = ("problem", "GPU type", "milestone", "version", "number", "when")
    return Table("milestones", columns, rows)
