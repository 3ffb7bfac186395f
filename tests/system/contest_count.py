"""A second count of a standing, from what people sent and what agents answer; without ranker."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cmp_to_key, partial
from itertools import pairwise
from math import exp, fsum, inf, isclose, log
from statistics import stdev
from typing import Any, NamedTuple

from bench.noop_agent import FREEDOM, time_us

from shared.contests.definition import Contest, ContestProblem, TieRule, is_in_window
from tests.system.contest_season import Season, Sent

DIGITS = 4
# The 97.5 % quantile for the freedom of a no-op agent's times, from the usual table.
QUANTILE = {22: 2.074}[FREEDOM]
# Times of a processor that differ by less than this share are tied in any case.
DELTA = 0.003


class Entry(NamedTuple):
    """The fastest source of a contestant on a problem, with its place in the division."""

    sent: Sent
    received_at: datetime
    rank: int
    is_tied: bool
    points: float
    is_counted: bool = True


class Row(NamedTuple):
    """A contestant, who is the name of a person or the id of a team, with all entries."""

    contestant: str
    names: list[str]
    entries: list[Entry]
    rank: int = 0
    is_tied: bool = False

    @property
    def counted(self) -> list[Entry]:
        """The entries that make the sum."""
        return [entry for entry in self.entries if entry.is_counted]

    @property
    def points(self) -> float:
        """The sum."""
        return round(fsum(entry.points for entry in self.counted), DIGITS)


def count_standing(
    season: Season, slug: str, round_: str, until_at: datetime | None = None
) -> dict[str, list[Row]]:
    """Count the standing of each division; nothing counts that was received from `until_at` on."""
    contest = season.contests[slug]
    divisions: dict[str, list[Row]] = {division.slug: [] for division in contest.divisions}
    names = find_names(season, slug, round_)
    places: dict[str, list[Entry]] = {contestant: [] for contestant in names}
    for problem in contest.problems:
        if problem.round != round_:
            continue
        best = find_best(season, problem, names, until_at)
        for division in divisions:
            own = [it for it in best if find_division(season, slug, it.contestant) == division]
            for entry in place_entries(season, problem, own):
                places[entry.sent.contestant].append(entry)
    for contestant, entries in places.items():
        if entries:
            row = Row(contestant, names[contestant], mark_counted(contest, entries))
            divisions[find_division(season, slug, contestant)].append(row)
    return {division: rank_rows(contest, rows) for division, rows in divisions.items()}


def find_names(season: Season, slug: str, round_: str) -> dict[str, list[str]]:
    """Who takes part in a round, with the names of those who are not disqualified."""
    names: dict[str, list[str]] = {}
    for person in season.members[slug]:
        if person not in season.out[slug]:
            names.setdefault(season.contestant(slug, person), []).append(person)
    finalists = season.finalists.get(slug)
    if round_ == "finals" and finalists is not None:
        return {contestant: own for contestant, own in names.items() if contestant in finalists}
    return names


def find_division(season: Season, slug: str, contestant: str) -> str:
    """The division of a person, or that of the captain of a team."""
    members = season.members[slug]
    if contestant in members:
        return members[contestant].division
    return next(it.division for it in members.values() if it.team == contestant and it.is_captain)


def find_best(
    season: Season,
    problem: ContestProblem,
    contestants: Mapping[str, Sequence[str]],
    until_at: datetime | None,
) -> list[Sent]:
    """The fastest right source of each contestant on a problem, in the order of their times."""
    sent = (
        it
        for it in season.sent
        if it.problem == problem.slug
        and it.contestant in contestants
        and counts(season, it, problem, until_at)
    )
    best: dict[str, Sent] = {}
    for it in sorted(sent, key=lambda it: (it.score_us, it.number)):
        best.setdefault(it.contestant, it)
    return list(best.values())


def counts(season: Season, sent: Sent, problem: ContestProblem, until_at: datetime | None) -> bool:
    """Whether a submission counts: ranked, right, in time, not withdrawn, of nobody who is out."""
    at, _ = season.ledger.received[sent.number]
    return (
        sent.mode == "ranked"
        and sent.is_right
        and is_in_window(problem, at)
        and (until_at is None or at < until_at)
        and sent.number not in season.ledger.withdrawn
        and sent.person not in season.out[sent.contest]
    )


def place_entries(season: Season, problem: ContestProblem, best: Sequence[Sent]) -> list[Entry]:
    """The places of a division's entries on a problem, the fastest first, and their points."""
    entries: list[Entry] = []
    for group in group_ties(best):
        rank = len(entries) + 1
        for sent in group:
            points = problem.weight * find_points(problem, rank, sent.score_us, best[0].score_us)
            at, _ = season.ledger.received[sent.number]
            entries.append(Entry(sent, at, rank, len(group) > 1, round(points, DIGITS)))
    return entries


def group_ties(best: Iterable[Sent]) -> list[list[Sent]]:
    """Group entries that cannot be told apart: the intervals of all have a time in common."""
    groups: list[list[Sent]] = []
    common = (inf, 0.0)
    for sent in best:
        low, high = interval_us(sent)
        both = max(low, common[0]), min(high, common[1])
        if both[0] <= both[1]:
            groups[-1].append(sent)
            common = both
        else:
            groups.append([sent])
            common = low, high
    return groups


def interval_us(sent: Sent) -> tuple[float, float]:
    """The 95 % interval of a source's time, as docs/timing.md defines it."""
    logs = [log(time) for time in time_us(sent.digest)]
    half = max(QUANTILE * stdev(logs) / len(logs) ** 0.5, DELTA / 2)
    return sent.score_us * exp(-half), sent.score_us * exp(half)


def find_points(problem: ContestProblem, rank: int, score_us: float, best_us: float) -> float:
    """The points of a place before their weight, by the rules of the four files."""
    scoring = problem.scoring
    if scoring.by == "places":
        return scoring.points[rank - 1] if rank <= len(scoring.points) else 0.0
    assert scoring.by == "time" or scoring.expression == "100 * best_us / time_us"
    return 100 * best_us / score_us


def mark_counted(contest: Contest, entries: list[Entry]) -> list[Entry]:
    """Let only the best problems of a contestant count, if the contest says so."""
    best = sorted(entries, key=lambda entry: (-entry.points, entry.sent.problem))
    left_out = best[contest.best_of :] if contest.best_of else []
    return [entry._replace(is_counted=entry not in left_out) for entry in entries]


def rank_rows(contest: Contest, rows: Iterable[Row]) -> list[Row]:
    """The rows with their places, best first."""
    compare = partial(compare_contestants, contest.ties)
    ordered = sorted(rows, key=cmp_to_key(compare))
    ranked: list[Row] = []
    for place, row in enumerate(ordered, 1):
        is_shared = bool(ranked) and compare(ranked[-1], row) == 0
        if is_shared:
            ranked[-1] = ranked[-1]._replace(is_tied=True)
        rank = ranked[-1].rank if is_shared else place
        ranked.append(row._replace(rank=rank, is_tied=is_shared))
    return ranked


def compare_contestants(ties: Sequence[TieRule], first: Row, second: Row) -> int:
    """Compare by points and then by each rule in turn: below 0 if the first one is better."""
    if first.points != second.points:
        return -1 if first.points > second.points else 1
    for rule in ties:
        if rule == "shared":
            return 0
        own, other = (find_tie_value(rule, row) for row in (first, second))
        if own != other:
            return -1 if own < other else 1
    return 0


def find_tie_value(rule: TieRule, row: Row) -> list[float]:
    """What a rule compares; the smaller one is better."""
    match rule:
        case "most_wins":
            return [-sum(entry.rank == 1 for entry in row.counted)]
        case "best_place":
            return [*sorted(entry.rank for entry in row.counted), inf]
        case "earliest":
            return [max(entry.received_at for entry in row.counted).timestamp()]
        case _:
            raise AssertionError(f"none of the four files has the rule {rule}")


def compare_standing(
    season: Season, slug: str, shown: Mapping[str, Any], until_at: datetime | None = None
) -> Counter[str]:
    """Check a standing against the count; return how many ties there were, and how many broken."""
    expected = count_standing(season, slug, shown["round"], until_at)
    is_team = season.contests[slug].teams.size_max > 1
    assert [part["division"] for part in shown["divisions"]] == list(expected)
    found: Counter[str] = Counter()
    for part in shown["divisions"]:
        rows = {row.contestant: row for row in expected[part["division"]]}
        names = [row["contestant"] if is_team else row["names"][0] for row in part["rows"]]
        assert sorted(names) == sorted(rows)
        for name, row in zip(names, part["rows"], strict=True):
            compare_row(season, slug, rows[name], row)
        ranks = [row["rank"] for row in part["rows"]]
        assert ranks == sorted(ranks)
        entries = [entry for row in rows.values() for entry in row.entries]
        found["tied entries"] += sum(entry.is_tied for entry in entries)
        found["shared places"] += sum(row.is_tied for row in rows.values())
        found["broken ties"] += sum(
            first.points == second.points and first.rank != second.rank
            for first, second in pairwise(expected[part["division"]])
        )
    return found


def compare_row(season: Season, slug: str, expected: Row, row: Mapping[str, Any]) -> None:
    """Check a contestant's row: place, sum, members, and each entry."""
    assert (row["rank"], row["is_tied"]) == (expected.rank, expected.is_tied), (row, expected)
    assert sorted(row["names"]) == sorted(expected.names)
    assert row["is_finalist"] == (expected.contestant in season.finalists.get(slug, ()))
    assert isclose(row["points"], expected.points, abs_tol=10**-DIGITS)
    entries = {entry["problem"]: entry for entry in row["entries"]}
    assert len(entries) == len(row["entries"]) == len(expected.entries)
    for own in expected.entries:
        entry = entries[own.sent.problem]
        values = [entry[name] for name in ("number", "rank", "is_tied", "is_counted")]
        assert values == [own.sent.number, own.rank, own.is_tied, own.is_counted], (entry, own)
        assert isclose(entry["score_us"], own.sent.score_us, rel_tol=1e-9)
        assert isclose(entry["points"], own.points, abs_tol=10**-DIGITS)


def compare_results(
    season: Season, slug: str, accounts: Mapping[str, str], results: Mapping[str, Any]
) -> None:
    """Check the places of results against the count of the last round; `accounts` are by name."""
    contest = season.contests[slug]
    expected = [
        (accounts.get(row.contestant, row.contestant), division, row.rank, row.points)
        for division, rows in count_standing(season, slug, contest.problems[-1].round).items()
        for row in rows
    ]
    shown = [
        (place["contestant"], place["division"], place["place"], round(place["points"], DIGITS))
        for place in results["places"]
    ]
    assert sorted(shown) == sorted(expected)
