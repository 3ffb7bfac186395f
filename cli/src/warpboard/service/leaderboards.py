"""Show leaderboards, their records and histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from shared.api.baselines import Baseline, MilestoneCondition
from shared.api.leaderboards import Entry, History, Leaderboard, Record, Records
from shared.api.problems import FullProblem, Problems
from shared.errors import Failed
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
from shared.problems.goals import SCORE
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table, insert_column
from warpboard.service.accounts import resolve_name
from warpboard.service.answers import show_answer
from warpboard.service.ports import Api, Screen

MARK = "baseline"


@dataclass(frozen=True)
class LeaderboardQuery:
    """Which leaderboards: all GPU types of a problem if none is named."""

    problem: str
    gpu: str | None = None
    as_of: str | None = None
    version: int | None = None


async def resolve_gpus(api: Api, query: LeaderboardQuery, *, are_open: bool = False) -> list[str]:
    """Return the GPU types of a query; with `are_open` only those that take submissions.

    The others still have entries.
    """
    if query.gpu:
        return [query.gpu]
    problem = (await api.get(FullProblem, "problems", query.problem)).value
    return problem.gpus if are_open else [*problem.gpus, *problem.gpus_closed]


async def show_leaderboards(
    api: Api, screen: Screen, query: LeaderboardQuery, *, as_json: bool
) -> int:
    """Show a problem's leaderboards, now or at a moment. Raises Refused and Failed."""
    options = {"as_of": query.as_of, "version": query.version}
    given_options = {name: value for name, value in options.items() if value is not None}
    answers = [
        await api.get(Leaderboard, "leaderboards", query.problem, gpu, **given_options)
        for gpu in await resolve_gpus(api, query)
    ]
    boards = [answer.value for answer in answers]
    if query.as_of and any(board.as_of_at is None for board in boards):
        raise Failed(
            "the platform shows no leaderboard of the past: warpboard server audit --as-of does"
        )
    if as_json:
        screen.json({"leaderboards": [answer.document for answer in answers]})
        return OK
    _print_leaderboards(screen, boards, is_one=query.gpu is not None)
    return OK


def _print_leaderboards(screen: Screen, boards: Sequence[Leaderboard], *, is_one: bool) -> None:
    """Print leaderboards that have rows, and where the entries of others are."""
    shown_boards = [
        board
        for board in boards
        if is_one
        or board.items
        or any(baseline.score_us is not None for baseline in board.baselines)
    ]
    for board in shown_boards:
        screen.table(leaderboard_table(board))
        if board.milestones:
            screen.table(milestone_table(board))
    empty = [board.gpu for board in boards if board not in shown_boards]
    if empty and not is_one:
        screen.say(f"no entry yet on {', '.join(empty)}")
    for board in boards:
        if not board.items and board.other_versions:
            screen.say(_other_version_line(board))
    if any(entry.is_tied for board in shown_boards for entry in board.items):
        screen.say(f"=: {TIED_LEGEND}")


def _other_version_line(board: Leaderboard) -> str:
    """Say which other version of an empty leaderboard has entries."""
    newest = board.other_versions[0]
    entries = count_text(newest.entries_count, "entry", "entries")
    arguments = f"{board.problem} {board.gpu} --version {newest.problem_version}"
    return (
        f"nothing is ranked under version {board.problem_version} on {board.gpu}; version"
        f" {newest.problem_version} has {entries}: warpboard leaderboard show {arguments}"
    )


async def history(
    api: Api,
    screen: Screen,
    known_name: str | None,
    query: LeaderboardQuery | None,
    *,
    as_json: bool,
) -> int:
    """Show the caller's ranked submissions, on all leaderboards if no problem is named."""
    participant = await resolve_name(api, known_name)
    if query:
        slugs = [query.problem]
    else:
        problems = (await api.get(Problems, "problems")).value.items
        slugs = [problem.slug for problem in problems]
    version = {"version": query.version} if query and query.version else {}
    answers = [
        await api.get(
            History, "participants", participant, "history", problem=slug, gpu=gpu, **version
        )
        for slug in slugs
        for gpu in await resolve_gpus(api, LeaderboardQuery(slug))
    ]
    history_tables = [history_table(answer.value) for answer in answers if answer.value.items]
    if not history_tables and not as_json:
        screen.say(f"{participant} has no ranked submission there that is over")
        return OK
    if as_json:
        screen.json({"histories": [answer.document for answer in answers]})
    for table in () if as_json else history_tables:
        screen.table(table)
    return OK


async def records(api: Api, screen: Screen, problem: str, gpu: str, *, as_json: bool) -> int:
    """Show the records of a leaderboard, newest first."""
    answer = await api.get(Records, "leaderboards", problem, gpu, "records")
    records = answer.value.items
    return show_answer(screen, answer, record_table(problem, gpu, records), as_json=as_json)


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
    is_score = condition.metric == SCORE
    value = time_text(condition.value * 1e6) if is_score else f"{condition.value:g}"
    return f"{condition.metric} {condition.op} {value}"
