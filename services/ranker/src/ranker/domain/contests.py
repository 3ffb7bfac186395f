"""The standing of a contest, from its definition, its contestants and the runs that count.

The read models and the audit gather these in different ways; the rules are here.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from ranker.domain.contest_points import ContestantPlace, ProblemPlace, rank_contestants
from ranker.domain.places import Place, ScoredEntry, Win, assign_places
from ranker.domain.score import PooledScore, pool_results, results_that_count
from shared.api.contest_standings import (
    ContestEntry,
    ContestStandingRow,
    DivisionStanding,
    StandingRound,
)
from shared.contests.definition import ROUNDS, Contest, ContestProblem, Division
from shared.events import SubmissionFinished

PRACTICE: Final = "practice"
FINALS = "finals"


class Window(NamedTuple):
    """Which submissions to a problem count: those received from an instant on, until another."""

    from_at: datetime
    until_at: datetime | None

    def has(self, at: datetime) -> bool:
        """Whether a submission that was received at an instant counts."""
        return self.from_at <= at and (self.until_at is None or at < self.until_at)


def find_windows(
    contest: Contest, round_: StandingRound, until_at: datetime | None = None
) -> dict[str, Window]:
    """Return the windows of the problems of a round; nothing received from `until_at` on counts.

    Practice has all problems, each from its close on.
    """
    windows = {}
    for problem in contest.problems:
        if round_ == PRACTICE:
            windows[problem.slug] = Window(problem.ends_at, until_at)
        elif problem.round == round_:
            end_at = problem.ends_at if until_at is None else min(problem.ends_at, until_at)
            windows[problem.slug] = Window(problem.starts_at, end_at)
    return windows


def find_round(contest: Contest, at: datetime) -> StandingRound:
    """The newest round of which a problem has started by an instant, or the first one."""
    rounds = sorted({problem.round for problem in contest.problems}, key=ROUNDS.index)
    started = {problem.round for problem in contest.problems if problem.starts_at <= at}
    return next((round_ for round_ in reversed(rounds) if round_ in started), rounds[0])


def find_gpu(problem: ContestProblem, gpus: Sequence[str]) -> str:
    """The GPU type on which a problem is ranked: the contest's choice, or the only one; else ""."""
    return problem.gpu or (gpus[0] if len(gpus) == 1 else "")


@dataclass
class Person:
    """A person who registered; `team` is "" for one who takes part alone."""

    account: str
    division: str
    team: str = ""
    is_registered: bool = True
    is_disqualified: bool = False


@dataclass
class Team:
    """A team; it begins with the division of its captain."""

    id: str
    name: str
    captain: str
    division: str
    is_disqualified: bool = False


class Contestant(NamedTuple):
    """A person or a team, with the accounts of its members; a person has no `name`."""

    id: str
    division: str
    name: str | None
    members: tuple[str, ...]


@dataclass
class Roster:
    """The people and teams of a contest, and who was admitted to the finals."""

    people: dict[str, Person] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)
    finalists: frozenset[str] = frozenset()

    def contestants(self, contest: Contest, round_: StandingRound) -> dict[str, Contestant]:
        """Return who takes part in a round by id, without those who are disqualified."""
        members: dict[str, list[str]] = {}
        for person in self.people.values():
            if person.is_registered and not person.is_disqualified:
                members.setdefault(person.team or person.account, []).append(person.account)
        is_limited = round_ == FINALS and contest.finalists > 0
        contestants = (
            self._contestant(id_, own)
            for id_, own in members.items()
            if not is_limited or id_ in self.finalists
        )
        return {contestant.id: contestant for contestant in contestants if contestant is not None}

    def disqualified(self) -> frozenset[str]:
        """The accounts whose submissions do not count, in a team either."""
        return frozenset(name for name, person in self.people.items() if person.is_disqualified)

    def _contestant(self, id_: str, members: Iterable[str]) -> Contestant | None:
        team = self.teams.get(id_)
        if team is None:
            person = self.people.get(id_)
            return None if person is None else Contestant(id_, person.division, None, (id_,))
        if team.is_disqualified:
            return None
        return Contestant(id_, team.division, team.name, tuple(sorted(members)))


class ContestRun(NamedTuple):
    """A result that counts on a problem of a contest, for its contestant of that moment."""

    submission: str
    account: str
    contestant: str
    number: int
    source: str
    received_at: datetime
    result: SubmissionFinished


class PracticePlace(NamedTuple):
    """A place on the practice leaderboard of a problem that is in no contest."""

    place: Place
    run: ContestRun
    pool: PooledScore


class CountedRuns(NamedTuple):
    """What a standing is derived from, by problem; runs are in the order of their decisions.

    `wins` are the duels that each source won; `submissions_counts` the ranked submissions of each
    contestant in the round.
    """

    runs: Mapping[str, Sequence[ContestRun]]
    wins: Mapping[str, Mapping[str, Mapping[str, Win]]]
    gpus: Mapping[str, str]
    submissions_counts: Mapping[str, int]

    def without(self, accounts: AbstractSet[str]) -> "CountedRuns":
        """The same without the runs of some accounts."""
        runs = {
            slug: [run for run in own if run.account not in accounts]
            for slug, own in self.runs.items()
        }
        return self._replace(runs=runs)


class _Best(NamedTuple):
    """The best entry of a contestant on a problem."""

    run: ContestRun
    pool: PooledScore

    @property
    def key(self) -> tuple[float, int]:
        return self.pool.placed_us, self.run.number


def derive_divisions(
    contest: Contest, round_: StandingRound, roster: Roster, counted: CountedRuns
) -> list[DivisionStanding]:
    """Return the standing of each division, best first, with contestants who have an entry.

    In practice every participant is a contestant, in one division without a name.
    """
    if round_ == PRACTICE:
        names = {run.contestant for runs in counted.runs.values() for run in runs}
        contestants = {name: Contestant(name, "", None, (name,)) for name in names}
        divisions = [Division(slug="", title="Practice")]
    else:
        contestants = roster.contestants(contest, round_)
        divisions = list(contest.divisions)
    finalists = roster.finalists if round_ != PRACTICE else frozenset()
    counted = counted.without(roster.disqualified())
    return [
        DivisionStanding(
            division=division.slug,
            title=division.title,
            rows=_derive_rows(
                contest,
                {
                    contestant.id: contestant
                    for contestant in contestants.values()
                    if contestant.division == division.slug
                },
                counted,
                finalists,
            ),
        )
        for division in divisions
    ]


def _derive_rows(
    contest: Contest,
    contestants: Mapping[str, Contestant],
    counted: CountedRuns,
    finalists: AbstractSet[str],
) -> list[ContestStandingRow]:
    entries: dict[tuple[str, str], ContestEntry] = {}
    places: dict[str, list[ProblemPlace]] = {}
    for problem in contest.problems:
        runs = (run for run in counted.runs.get(problem.slug, ()) if run.contestant in contestants)
        for place, entry in _place_entries(problem, _find_best(runs), counted):
            places.setdefault(problem.slug, []).append(place)
            entries[place.contestant, problem.slug] = entry
    return [
        _make_row(place, contestants[place.contestant], entries, finalists)
        for place in rank_contestants(contest, places, counted.submissions_counts)
    ]


def _find_best(runs: Iterable[ContestRun]) -> dict[str, _Best]:
    """The best entry of each contestant: that of the source which is placed best.

    The runs of one source by all members of a team make one score.
    """
    by_source: dict[tuple[str, str], dict[str, ContestRun]] = {}
    for run in runs:
        by_source.setdefault((run.contestant, run.source), {})[run.submission] = run
    best: dict[str, _Best] = {}
    for (contestant, _), own in by_source.items():
        results = {submission: run.result for submission, run in own.items()}
        counting = results_that_count(results)
        pool = pool_results(results[submission] for submission in counting)
        first = min((own[submission] for submission in counting), key=lambda run: run.number)
        entry = _Best(first, pool)
        if contestant not in best or entry.key < best[contestant].key:
            best[contestant] = entry
    return best


def _place_entries(
    problem: ContestProblem, best: Mapping[str, _Best], counted: CountedRuns
) -> list[tuple[ProblemPlace, ContestEntry]]:
    """The places of a problem's entries, without their points."""
    placed = []
    for place, contestant, (run, pool) in _rank_best(best, counted.wins.get(problem.slug, {})):
        yardstick_us = run.result.yardstick_us or 0.0
        # Like its place, the points of a noisy time are those of its slow end.
        times = (pool.placed_us, yardstick_us, run.received_at)
        entry = ContestEntry(
            problem=problem.slug,
            gpu=counted.gpus.get(problem.slug, problem.gpu),
            rank=place.rank,
            is_tied=place.is_tied,
            number=place.number,
            score_us=pool.score_us,
            received_at=run.received_at,
            points=0.0,
        )
        placed.append((ProblemPlace(contestant, problem.slug, place.rank, *times), entry))
    return placed


def rank_practice(
    runs: Iterable[ContestRun], wins: Mapping[str, Mapping[str, Win]]
) -> list[PracticePlace]:
    """The practice leaderboard of a problem that is in no contest, best first.

    As in a contest, equal sources of a participant are pooled; `wins` are the duels by source.
    """
    return [
        PracticePlace(place, best.run, best.pool)
        for place, _, best in _rank_best(_find_best(runs), wins)
    ]


def _rank_best(
    best: Mapping[str, _Best], wins: Mapping[str, Mapping[str, Win]]
) -> list[tuple[Place, str, _Best]]:
    """The place of each contestant's best entry, best first."""
    by_number = {entry.run.number: (contestant, entry) for contestant, entry in best.items()}
    scored = [
        ScoredEntry(
            number,
            entry.pool.score_us,
            entry.pool.error,
            entry.pool.freedom,
            entry.pool.delta,
            entry.run.source,
            wins.get(entry.run.source, {}),
            is_noisy=entry.pool.is_noisy,
        )
        for number, (_, entry) in by_number.items()
    ]
    return [(place, *by_number[place.number]) for place in assign_places(scored)]


def _make_row(
    place: ContestantPlace,
    contestant: Contestant,
    entries: Mapping[tuple[str, str], ContestEntry],
    finalists: AbstractSet[str],
) -> ContestStandingRow:
    return ContestStandingRow(
        rank=place.rank,
        is_tied=place.shared > 1,
        points=place.points,
        contestant=place.contestant,
        name=contestant.name,
        members=list(contestant.members),
        entries=[
            msgspec.structs.replace(
                entries[place.contestant, part.place.problem],
                points=part.points,
                is_counted=part.is_counted,
            )
            for part in place.parts
        ],
        is_finalist=place.contestant in finalists,
    )
