"""Commands for leaderboards: show, chart and join them, and their records and histories."""

from collections.abc import Coroutine, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click
from click import IntRange

from shared.api.cases import Baseline, MilestoneCondition, OwnMilestones
from shared.api.leaderboards import (
    CaseLeaderboards,
    Entry,
    History,
    Leaderboard,
    PracticeLeaderboard,
    Records,
    SetScores,
)
from shared.api.problems import Problems
from shared.api.rating import Ratings
from shared.errors import Failed, Refused
from shared.presentation.outcome import (
    MEASURED_ALONE,
    share_text,
    speedup_cell,
    speedups_text,
)
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
    untested_text,
)
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import Table, make_table
from warpboard.service.answers import resolve_gpus
from warpboard.terminal import options, plots, web
from warpboard.terminal.accounts import resolve_name
from warpboard.terminal.options import api_command, local_command, read_stdin_line
from warpboard.terminal.problems import LIST_OPTIONS, show_problems

CODE_LENGTH_MAX = 1024
CASE_PLACES_MAX = 50
PRACTICE_MAX = 200
MARK = "baseline"
OPTIONAL_COLUMNS = (
    *("pooled over", "roofline", "duel", "confirmation", "speed-up", "of the yardstick"),
)
EXTRA_COLUMNS = (
    *("isolation", "tier", "pooled over", "confirmation", "duel"),
    *("when", "grade", "roofline", "speed-up", "of the yardstick", "interval"),
)


# A problem has a leaderboard for each of its GPU types.
@api_command("leaderboard list", parameters=LIST_OPTIONS, access=options.VIEWER)
async def list_leaderboards(context: AppContext, api: Api, *, is_all: bool) -> int:
    """List the open problems with their GPU types and deadlines."""
    return await show_problems(context, api, is_all=is_all)


@api_command(
    "leaderboard rating --limit 10",
    "leaderboard rating --as-of 2026-11-21T12:00:00Z",
    parameters=(
        click.option(
            "--as-of", type=options.Instant(), help="The rating at that instant; default: now."
        ),
        click.option("--limit", type=IntRange(1, 200), default=50, show_default=True),
        click.option("--after", type=IntRange(min=0), default=0, help="Leave out so many."),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def show_rating(
    context: AppContext, api: Api, as_of: str | None, limit: int, after: int
) -> int:
    """List participants by their rating.

    It is the sum of their points over all problems: the share of the others whom they beat there.
    """
    answer = await api.get(Ratings, "rating", as_of=as_of, limit=limit, after=after)
    rows = [
        {
            "rank": f"{row.rank}{'=' if row.is_tied else ''}",
            "participant": row.participant,
            "rating": f"{row.rating:.1f}",
            "problems": len(row.problems),
            "best": f"{row.problems[0].problem} on {row.problems[0].gpu}",
        }
        for row in answer.value.items
    ]
    notes = [f"more: --after {answer.value.next_after}"] if answer.value.next_after else []
    return context.show(answer.document, [make_table("rating", rows, extra=("best",)), *notes])


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
        web.WEB,
        options.WIDE,
    ),
    access=options.VIEWER,
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
    is_web: bool,
) -> int:
    """Show the leaderboards of a PROBLEM, best first.

    With a GPU type, only its leaderboard. --plot and --samples draw charts instead, and --web
    opens the page of the leaderboard, or of the problem without a GPU type.
    """
    if is_web:
        parts = ("leaderboards", problem, gpu) if gpu is not None else ("problems", problem)
        query = {"version": version, "as_of": as_of if gpu else None}
        return web.show_page(context, web.site_path(*parts, **query))
    if png is not None and not is_plotted and samples is None:
        raise click.UsageError("--png needs --plot or --samples")
    async with context.api() as api:
        if samples is not None:
            return plots.show_chart(context, await plots.load_spread(api, samples), png)
        if is_plotted:
            chart = await plots.load_progress(context, api, problem, gpu, version)
            return plots.show_chart(context, chart, png)
        answers = [
            await api.get(Leaderboard, "leaderboards", problem, name, as_of=as_of, version=version)
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
    # An entry shows that submissions can be judged there.
    if untested := [board.gpu for board in boards if board.is_untested and not board.items]:
        yield untested_text(untested)
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
        options.WIDE,
    ),
    access=options.PLATFORM,
)
async def history(context: AppContext, problem: str | None, version: int | None) -> int:
    """Show your ranked submissions.

    With a PROBLEM, only those to it.
    """
    if version and not problem:
        raise click.UsageError("--version needs a PROBLEM")
    known_name = context.participant
    async with context.api() as api:
        name = await resolve_name(api, known_name)
        if problem:
            slugs = [problem]
        else:
            slugs = [item.slug for item in (await api.get(Problems, "problems")).value.items]
        answers = [
            await api.get(
                History, "participants", name, "history", problem=slug, gpu=gpu, version=version
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
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.argument("gpu"),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def records(context: AppContext, api: Api, problem: str, gpu: str) -> int:
    """Show the records of a PROBLEM on a GPU type."""
    answer = await api.get(Records, "leaderboards", problem, gpu, "records")
    rows = [
        {
            "when": record.at,
            "participant": record.participant or None,
            "score": time_text(record.score_us),
            "before": time_text(record.previous_us),
            "number": record.number,
            "state": "valid" if record.is_standing else "invalidated",
        }
        for record in answer.value.items
    ]
    table = make_table(f"records of {problem} on {gpu}", rows, extra=("before", "state"))
    return context.show(answer.document, [table])


@api_command(
    "leaderboard cases matmul CPU",
    "leaderboard cases matmul CPU --limit 10",
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.argument("gpu"),
        click.option("--case", help="Only this case, by its name."),
        click.option(
            "--limit",
            type=IntRange(1, CASE_PLACES_MAX),
            default=1,
            show_default=True,
            help="How many entries of each case.",
        ),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def cases(
    context: AppContext, api: Api, problem: str, gpu: str, *, case: str | None, limit: int
) -> int:
    """Show who is fastest at each case of a PROBLEM on a GPU type."""
    answer = await api.get(
        CaseLeaderboards, "leaderboards", problem, gpu, "best-times", case=case, limit=limit
    )
    rows = [
        {
            "case": board.case,
            "place": f"{'=' if entry.is_tied else ''}{entry.place}",
            "participant": entry.participant or None,
            "time": time_text(entry.time_us),
            "rank": entry.rank,
            "weight": f"{board.weight:g}",
            "number": entry.number,
        }
        for board in answer.value.items
        for entry in board.items
    ]
    table = make_table(f"fastest at each case of {problem} on {gpu}", rows, extra=("weight",))
    return context.show(answer.document, [table])


@api_command(
    "leaderboard practice matmul CPU",
    parameters=(
        click.argument("problem", type=options.SLUG),
        click.argument("gpu"),
        click.option(
            "--limit",
            type=IntRange(1, PRACTICE_MAX),
            default=100,
            show_default=True,
            help="How many entries.",
        ),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def practice(context: AppContext, api: Api, problem: str, gpu: str, *, limit: int) -> int:
    """Show the practice leaderboard of a PROBLEM on a GPU type.

    It ranks what was received after the deadline of a problem that is in no contest, if its author
    allows practice. `contest standing CONTEST --round practice` is that of a contest.
    """
    answer = await api.get(
        PracticeLeaderboard, "leaderboards", problem, gpu, "practice", limit=limit
    )
    rows = [
        {
            "rank": rank_text(entry.rank, is_tied=entry.is_tied),
            "participant": entry.participant or None,
            "score": time_text(entry.score_us),
            "when": instant_text(entry.received_at),
            "number": entry.number,
        }
        for entry in answer.value.items
    ]
    table = make_table(f"practice of {problem} on {gpu}", rows, extra=("when",))
    return context.show(answer.document, [table])


@local_command(
    "leaderboard join 3p8uCz0wq1mVYk2nqkq1Jw",
    parameters=(click.argument("code"),),
    access=options.PLATFORM,
)
def join(context: AppContext, code: str) -> Coroutine[Any, Any, int]:
    """Accept the invite CODE to closed leaderboards.

    `-` reads the code from stdin.
    """
    invite_code = read_stdin_line(CODE_LENGTH_MAX) if code == "-" else code
    if not invite_code:
        raise Refused(
            "invalid_invite", "stdin has no code: pipe the invite code into this command", "code"
        )

    async def send() -> int:
        async with context.api() as api:
            answer = await api.join(invite_code)
        opened = answer.value.leaderboards
        line = f"{count_text(len(opened), 'leaderboard')} open to you: {', '.join(opened)}"
        return context.show(answer.document, [line])

    return send()


def history_table(answer: History) -> Table:
    """List a participant's ranked submissions on one leaderboard, newest first."""
    rows = [
        {
            "number": item.number,
            "when": item.received_at,
            "file": one_line(item.name, 40),
            "verdict": item.verdict or item.outcome,
            "score": time_text(item.score_us),
            "interval": interval_text(item.interval_us),
            "this run": time_text(item.run_us),
            "pooled over": numbers_text(item.pooled_over) or None,
            "grade": item.grade or None,
            "standing": _standing_text(item.counts, item.was_best, item.code),
        }
        for item in answer.items
    ]
    place = f"{answer.participant} in {answer.problem} on {answer.gpu}"
    title = f"{place}, version {answer.problem_version}"
    extra = ("pooled over", "this run", "interval", "file", "grade", "when")
    return make_table(title, rows, extra=extra)


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


def leaderboard_table(answer: Leaderboard, zone: tzinfo | None = None) -> Table:
    """Build the table of a leaderboard, best first; `zone` defaults to this machine's.

    Baselines, which have no rank, stand between the entries by their times.
    """
    lines: list[Entry | Baseline] = list(answer.items)
    for baseline in answer.baselines:
        if baseline.score_us is not None:
            faster = [line for line in lines if (line.score_us or 0.0) <= baseline.score_us]
            lines.insert(lines.index(faster[-1]) + 1 if faster else 0, baseline)
    has_yardstick = any(entry.speedup is not None for entry in answer.items)
    rows = [
        _baseline_row(line)
        if isinstance(line, Baseline)
        else _entry_row(line, has_yardstick=has_yardstick)
        for line in lines
    ]
    moment = f", as of {instant_text(answer.as_of_at, zone)}" if answer.as_of_at else ""
    title = f"{answer.problem} on {answer.gpu}, version {answer.problem_version}{moment}"
    return make_table(title, rows, zone, OPTIONAL_COLUMNS, EXTRA_COLUMNS)


def _entry_row(entry: Entry, *, has_yardstick: bool) -> dict[str, Any]:
    """Return an entry's row; beside others that were timed with a yardstick it says how it was."""
    ratio = speedup_cell(entry.speedup, entry.speedup_interval)
    return {
        "rank": rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied),
        "participant": entry.participant or None,
        "score": time_text(entry.score_us),
        "interval": interval_text(entry.interval_us),
        "number": entry.number,
        "when": entry.received_at,
        "tier": entry.tier or None,
        "isolation": entry.level or None,
        "pooled over": numbers_text(entry.pooled_over) or None,
        "roofline": share_text(entry.roofline_fraction),
        "duel": entry.duel or None,
        "confirmation": entry.confirmation or None,
        "speed-up": speedups_text(entry.vs_baseline),
        "of the yardstick": ratio or (MEASURED_ALONE if has_yardstick else None),
        "grade": ", ".join([entry.grade or NO_VALUE] + ["provisional"] * entry.is_provisional),
    }


def _baseline_row(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline's row: no rank, and its name in brackets, unlike any participant's."""
    return {
        "rank": None,
        "participant": f"[{MARK} {baseline.name}]",
        "score": time_text(baseline.score_us),
        "interval": interval_text(baseline.interval_us),
        "number": None,
        "when": baseline.measured_at,
        "tier": baseline.tier or None,
        "isolation": baseline.level or None,
        **dict.fromkeys(OPTIONAL_COLUMNS),
        "grade": one_line(baseline.note, 40) or None,
    }


def milestone_table(answer: Leaderboard) -> Table:
    """List the milestones of a leaderboard, and how many participants reached each."""
    rows = [
        {
            "milestone": one_line(milestone.title, 60),
            "when": condition_text(milestone.when),
            "reached": milestone.reached,
            "by you": f"with {milestone.number}, {instant_text(milestone.reached_at)}"
            if milestone.is_reached
            else None,
        }
        for milestone in answer.milestones
    ]
    return make_table(f"milestones of {answer.problem} on {answer.gpu}", rows, extra=("by you",))


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


@api_command(
    "leaderboard fast-p kernelbench-1 H100",
    parameters=(click.argument("prefix"), click.argument("gpu"), options.WIDE),
    access=options.VIEWER,
)
async def fast_p(context: AppContext, api: Api, prefix: str, gpu: str) -> int:
    """Show fast_p over a set of problems.

    The set are the problems whose names begin with PREFIX, such as kernelbench-1 for level 1 of
    KernelBench. fast_p is the share of all of them on which a participant is ranked and more than p
    times as fast as a baseline; fast_0 is the share on which they are ranked.
    """
    answer = await api.get(SetScores, "sets", prefix, gpu)
    scores = answer.value
    rows = [
        {
            "participant": entry.participant or None,
            "correct": entry.correct,
            "fast_0": share_text(entry.correct / scores.problems_count),
        }
        | {
            f"fast_{p} {baseline}": share_text(share)
            for baseline, shares in entry.fast.items()
            for p, share in shares.items()
            if p != "0"
        }
        for entry in scores.items
    ]
    place = f"{scores.prefix} on {scores.gpu}, {count_text(scores.problems_count, 'problem')}"
    shares = tuple(rows[0])[:2:-1] if rows else ()
    # On a narrow screen fast_1 of each baseline stays longest.
    extra = tuple(sorted(shares, key=lambda name: name.startswith("fast_1 ")))
    table = make_table(place, rows, extra=extra)
    return context.show(answer.document, [table])


@api_command("leaderboard milestones", parameters=(options.WIDE,), access=options.VIEWER)
async def milestones(context: AppContext, api: Api) -> int:
    """List the milestones that you reached.

    The newest is first.
    """
    answer = await api.get(OwnMilestones, "me", "milestones")
    rows = [
        {
            "problem": milestone.problem,
            "GPU type": milestone.gpu,
            "milestone": one_line(milestone.title, 60),
            "version": milestone.problem_version,
            "number": milestone.number,
            "when": milestone.reached_at,
        }
        for milestone in answer.value.items
    ]
    table = make_table("milestones", rows, extra=("version", "number", "when"))
    return context.show(answer.document, [table])
