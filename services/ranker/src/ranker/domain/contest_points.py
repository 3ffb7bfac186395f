"""How the places of a contest's problems become points, and points a place."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from shared.contests.definition import Contest, Scoring, TieRule
from shared.problems.roofline import FormulaError, evaluate_formula

# Points are compared with so many digits after the point, whatever order they were added in.
DIGITS = 4

TieKey = tuple[float, ...]


class ProblemPlace(NamedTuple):
    """The place of a contestant on a problem, with its time and that of the yardstick.

    `yardstick_us` is 0 for a run that was timed alone.
    """

    contestant: str
    problem: str
    rank: int
    score_us: float
    yardstick_us: float
    received_at: datetime


class Points(NamedTuple):
    """The points of a place, with the weight of its problem, and whether they are counted."""

    place: ProblemPlace
    points: float
    is_counted: bool


class ContestantPlace(NamedTuple):
    """A contestant's place, how many share it, their sum, and the points that it is made of."""

    contestant: str
    rank: int
    shared: int
    points: float
    parts: list[Points]


def score_places(scoring: Scoring, weight: float, places: Sequence[ProblemPlace]) -> list[float]:
    """Return the points of all places on one problem, in the same order; none is below 0.

    A place gets 0 where an expression has no value, such as after a division by zero.

    >>> at = datetime(2026, 1, 1)
    >>> places = [ProblemPlace(name, "matmul", rank, time_us, 40.0, at)
    ...     for name, rank, time_us in (("a", 1, 10.0), ("b", 1, 10.0), ("c", 3, 20.0))]
    >>> score_places(Scoring(points=[25, 18]), 2.0, places)
    [50.0, 50.0, 0.0]
    >>> score_places(Scoring(by="time", points_max=100), 1.0, places)
    [100.0, 100.0, 50.0]
    >>> expression = "10 * (count - place) + yardstick_us / time_us"
    >>> score_places(Scoring(by="expression", expression=expression), 1.0, places)
    [24.0, 24.0, 2.0]
    """
    best_us = min((place.score_us for place in places), default=0.0)
    return [
        round(weight * _score(scoring, place, len(places), best_us), DIGITS) for place in places
    ]


def _score(scoring: Scoring, place: ProblemPlace, count: int, best_us: float) -> float:
    match scoring.by:
        case "places":
            return scoring.points[place.rank - 1] if place.rank <= len(scoring.points) else 0.0
        case "time":
            return scoring.points_max * best_us / place.score_us
        case "expression":
            counts = {"place": place.rank, "count": count}
            times = {"time_us": place.score_us, "best_us": best_us}
            values = counts | times | {"yardstick_us": place.yardstick_us}
            try:
                return evaluate_formula(scoring.expression, values)
            except FormulaError:
                return 0.0


def rank_contestants(
    contest: Contest,
    places: Mapping[str, Sequence[ProblemPlace]],
    submissions_counts: Mapping[str, int],
) -> list[ContestantPlace]:
    """Return the overall standing from the places by problem, best first.

    `submissions_counts` has the ranked submissions of each contestant, for the rule `fewest`.
    Contestants who share a place are in the order of their ids.
    """
    parts: dict[str, list[Points]] = {}
    for problem in contest.problems:
        own_places = places.get(problem.slug, ())
        points = score_places(problem.scoring, problem.weight, own_places)
        for place, value in zip(own_places, points, strict=True):
            parts.setdefault(place.contestant, []).append(Points(place, value, is_counted=True))
    counted = {name: _count_best(own, contest.best_of) for name, own in parts.items()}
    keys = {
        name: _sort_key(own, contest.ties, submissions_counts.get(name, 0))
        for name, own in counted.items()
    }
    shared, ranks = Counter(keys.values()), _make_ranks(keys.values())
    return [
        ContestantPlace(name, ranks[keys[name]], shared[keys[name]], _sum(own), own)
        for name, own in sorted(counted.items(), key=lambda item: (keys[item[0]], item[0]))
    ]


def _make_ranks(keys: Iterable[tuple[TieKey, ...]]) -> dict[tuple[TieKey, ...], int]:
    ranks: dict[tuple[TieKey, ...], int] = {}
    for position, key in enumerate(sorted(keys), 1):
        ranks.setdefault(key, position)
    return ranks


def _count_best(own: Sequence[Points], best_of: int) -> list[Points]:
    """Mark the points that count: the most of them, at most `best_of`; 0 counts all."""
    if not best_of:
        return list(own)
    most = sorted(own, key=lambda part: (-part.points, part.place.problem))[:best_of]
    return [part._replace(is_counted=part in most) for part in own]


def _sum(own: Iterable[Points]) -> float:
    return round(math.fsum(part.points for part in own if part.is_counted), DIGITS)


def _sort_key(
    own: Sequence[Points], ties: Iterable[TieRule], submissions_count: int
) -> tuple[TieKey, ...]:
    """Return a key that is smaller for the better contestant, and equal for those who share."""
    counted = [part.place for part in own if part.is_counted]
    keys: list[TieKey] = [(-_sum(own),)]
    for rule in ties:
        match rule:
            case "most_wins":
                keys.append((-float(sum(place.rank == 1 for place in counted)),))
            case "best_place":
                # Who has a place where the other has none is the better one.
                ranks = sorted(float(place.rank) for place in counted)
                keys.append((*ranks, math.inf))
            case "earliest":
                keys.append((max(place.received_at for place in counted).timestamp(),))
            case "fewest":
                keys.append((float(submissions_count),))
            case "shared":
                break
    return tuple(keys)
