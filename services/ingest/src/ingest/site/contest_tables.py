"""What the pages of contests show: phases, problems with leaders, calendars and exports."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from urllib.parse import quote

from ingest.site.badges import escape_cell
from ingest.site.calendars import CalendarEvent
from ingest.site.reads import PageReads, api_path, read_if_possible
from shared.api.contest_standings import (
    ContestEntry,
    ContestResults,
    ContestStanding,
    StandingRound,
)
from shared.api.contests import Contestant
from shared.api.leaderboards import LeaderboardLine, Leaderboards
from shared.api.problems import Problem
from shared.contests.definition import (
    REVIEW_ITEMS,
    ROUNDS,
    Contest,
    is_in_window,
    next_phase,
    phase_at,
)
from shared.presentation.contests import PHASE_TITLES, describe_phase, describe_scoring
from shared.presentation.units import one_line

LEADERS_MAX = 3
TITLE_CHARS_MAX = 200
PRACTICE: StandingRound = "practice"
DECISIONS = {None: "open", True: "passed", False: "failed"}


class DatedProblem(NamedTuple):
    """A problem whose leaderboards have a deadline, and those that have entries, by GPU type."""

    problem: Problem
    deadline_at: datetime
    lines: dict[str, LeaderboardLine]


class PhaseRow(NamedTuple):
    """A phase, and whether it is over (`reached`), the current one, or still to come (`open`)."""

    title: str
    text: str
    status: Literal["reached", "current", "open"]
    starts_at: datetime
    ends_at: datetime | None


class Countdown(NamedTuple):
    """What happens next in a contest, and when."""

    text: str
    at: datetime


class ProblemRow(NamedTuple):
    """A problem of a contest; `problem` is None if the visitor cannot see it."""

    slug: str
    gpu: str
    round: str
    scoring: str
    starts_at: datetime
    ends_at: datetime
    is_open: bool
    problem: Problem | None
    leaders: Sequence["Leader"]


class Leader(NamedTuple):
    """One of the fastest contestants on a problem."""

    name: str | None
    division: str
    entry: ContestEntry


def list_deadlines(problems: Iterable[Problem]) -> list[tuple[Problem, datetime]]:
    """Return the problems with a deadline, and it, soonest first."""
    dated = [
        (problem, problem.deadline_at) for problem in problems if problem.deadline_at is not None
    ]
    return sorted(dated, key=lambda pair: (pair[1], pair[0].slug))


async def read_lines(reads: PageReads) -> dict[tuple[str, int], dict[str, LeaderboardLine]]:
    """Return the leaderboards by problem, version and GPU type; none if they cannot be read."""
    path = api_path("leaderboards")
    leaderboards = await read_if_possible(reads.read(path, Leaderboards, top=LEADERS_MAX))
    lines: dict[tuple[str, int], dict[str, LeaderboardLine]] = {}
    for line in leaderboards.items if leaderboards else ():
        lines.setdefault((line.problem, line.problem_version), {})[line.gpu] = line
    return lines


def list_phases(contest: Contest, at: datetime) -> list[PhaseRow]:
    """Return the phases of a contest as they are at an instant."""
    current, rows = phase_at(contest, at), list[PhaseRow]()
    for phase in contest.phases:
        status: Literal["reached", "current", "open"] = "open"
        if phase is current:
            status = "current"
        elif phase.starts_at <= at:
            status = "reached"
        title, text = PHASE_TITLES[phase.kind], describe_phase(phase)
        rows.append(PhaseRow(title, text, status, phase.starts_at, phase.ends_at))
    return rows


def find_countdown(contest: Contest, at: datetime) -> Countdown | None:
    """Return what happens next; None if nothing does."""
    current, following = phase_at(contest, at), next_phase(contest, at)
    if following is not None:
        return Countdown(f"{PHASE_TITLES[following.kind]} starts", following.starts_at)
    if current is not None and current.ends_at is not None:
        return Countdown(f"{PHASE_TITLES[current.kind]} ends", current.ends_at)
    return None


def list_leaders(standing: ContestStanding | None, slug: str) -> list[Leader]:
    """Return the fastest contestants on a problem, as far as the standing shows them."""
    leaders = [
        Leader(row.name, division.title, entry)
        for division in (standing.divisions if standing else ())
        for row in division.rows
        for entry in row.entries
        if entry.problem == slug
    ]
    return sorted(leaders, key=lambda leader: leader.entry.score_us)[:LEADERS_MAX]


def list_problems(
    contest: Contest, visible: Iterable[Problem], standing: ContestStanding | None, at: datetime
) -> list[ProblemRow]:
    """Return the problems of a contest in their order."""
    by_slug = {problem.slug: problem for problem in visible}
    return [
        ProblemRow(
            slug=problem.slug,
            gpu=problem.gpu,
            round=PHASE_TITLES[problem.round],
            scoring=describe_scoring(problem),
            starts_at=problem.starts_at,
            ends_at=problem.ends_at,
            is_open=is_in_window(problem, at),
            problem=by_slug.get(problem.slug),
            leaders=list_leaders(standing, problem.slug),
        )
        for problem in contest.problems
    ]


def list_rounds(contest: Contest, at: datetime) -> list[StandingRound]:
    """Return the rounds whose standings a page offers: those that have begun."""
    started = {problem.round for problem in contest.problems if problem.starts_at <= at}
    rounds: list[StandingRound] = [round_ for round_ in ROUNDS if round_ in started]
    is_closed = all(problem.ends_at <= at for problem in contest.problems)
    return [*rounds, PRACTICE] if is_closed else rounds


def calendar_events(contest: Contest, public_url: str) -> list[CalendarEvent]:
    """Return the phases of a contest for a calendar."""
    page = f"{public_url}/contests/{quote(contest.slug, safe='')}"
    title = one_line(contest.title, TITLE_CHARS_MAX)
    return [
        CalendarEvent(
            f"contest-{contest.slug}-{index}",
            f"{title}: {PHASE_TITLES[phase.kind]}",
            f"{describe_phase(phase)}\n{page}",
            page,
            phase.starts_at,
            phase.ends_at,
        )
        for index, phase in enumerate(contest.phases)
    ]


def deadline_events(problems: Iterable[Problem], public_url: str) -> list[CalendarEvent]:
    """Return the deadlines of problems for a calendar, soonest first."""
    pages = [
        (problem, deadline_at, f"{public_url}/problems/{quote(problem.slug, safe='')}")
        for problem, deadline_at in list_deadlines(problems)
    ]
    return [
        CalendarEvent(
            f"deadline-{problem.slug}",
            f"Deadline: {one_line(problem.title, TITLE_CHARS_MAX)}",
            f"GPU types: {', '.join(problem.gpus) or 'none'}.\n{page}",
            page,
            deadline_at,
        )
        for problem, deadline_at, page in pages
    ]


def write_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return a CSV file. Source: RFC 4180."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([escape_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def write_registrations(contestants: Iterable[Contestant]) -> bytes:
    """Return a row for each person who takes part."""
    header = (
        *("contestant", "team", "participant", "is_captain", "division", "declaration"),
        *("doubt", "disqualified"),
    )
    rows = [
        (
            contestant.contestant,
            (contestant.name or "") if contestant.is_team else "",
            member.participant or "",
            member.participant_id == contestant.captain,
            contestant.division,
            "; ".join(f"{name}: {text}" for name, text in (contestant.declaration or {}).items()),
            contestant.doubt or "",
            contestant.disqualified or "",
        )
        for contestant in contestants
        for member in contestant.members
    ]
    return write_csv(header, rows)


def write_results(results: ContestResults) -> bytes:
    """Return a row for each place, with the decisions on the checks of winners."""
    header = ["state", "division", "place", "contestant", "points", "is_disqualified", "runs"]
    header += [f"{item} {column}" for item in REVIEW_ITEMS for column in ("decision", "note")]
    lines = []
    for place in results.places:
        line: list[object] = [results.state, place.division, place.place]
        line += [place.name or place.contestant, place.points, place.is_disqualified]
        line.append(place.repetitions or "")
        checks = {check.item: check for check in place.checks or ()}
        for item in REVIEW_ITEMS:
            check = checks.get(item)
            line += ["", ""] if check is None else [DECISIONS[check.is_passed], check.note]
        lines.append(line)
    return write_csv(header, lines)


def write_standing(standing: ContestStanding) -> bytes:
    """Return a row for each contestant of a standing, with the place and points per problem."""
    rows = [(division, row) for division in standing.divisions for row in division.rows]
    problems = sorted({entry.problem for _, row in rows for entry in row.entries})
    header = ["round", "state", "division", "place", "is_tied", "contestant", "members", "points"]
    header += [f"{problem} {column}" for problem in problems for column in ("place", "points")]
    lines = []
    for division, row in rows:
        entries = {entry.problem: entry for entry in row.entries}
        line: list[object] = [standing.round, standing.state, division.division]
        line += [row.rank, row.is_tied, row.name or "", ", ".join(filter(None, row.names))]
        line.append(row.points)
        for problem in problems:
            entry = entries.get(problem)
            line += ["", ""] if entry is None else [entry.rank, entry.points]
        lines.append(line)
    return write_csv(header, lines)
