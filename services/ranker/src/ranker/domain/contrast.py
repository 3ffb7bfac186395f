"""The times of two runs, case by case: which is the faster, as far as that can be told."""

from collections.abc import Mapping, Sequence
from math import exp, isfinite, log, sqrt
from typing import Any, NamedTuple

from ranker.domain.student import reach

REACH_MAX = 50.0
TIME = "time"

Row = Mapping[str, Any]


class Contrast(NamedTuple):
    """A case in both runs; `ratio` is b over a with its 95 % interval, null where one is not known.

    The outcome is `faster` or `slower` of b where the interval leaves one out, else `same`;
    `unknown` where nobody can tell; a verdict where the two have not the same.
    """

    name: str
    stage: str
    a_us: float | None
    b_us: float | None
    ratio: float | None
    ci95: tuple[float, float] | None
    outcome: str
    a_verdict: str | None
    b_verdict: str | None


def contrast(a: Sequence[Row], b: Sequence[Row]) -> list[Contrast]:
    """The cases of two runs side by side, those of a first."""
    ours, theirs = _by_place(a), _by_place(b)
    return [_case(key, ours.get(key), theirs.get(key)) for key in {**ours, **theirs}]


def of_scores(a: Row, b: Row) -> Contrast:
    """The same for whole scores."""
    times = ({**one, "time_us": one["score_us"]} for one in (a, b))
    return _case(("score", "score", 0), *times)


def _by_place(cases: Sequence[Row]) -> dict[tuple[str, str, int], Row]:
    """Cases by their stage, name, and how many of that name came before."""
    found: dict[tuple[str, str, int], Row] = {}
    for case in cases:
        stage, name = case["stage"], case["name"]
        nth = sum(key[:2] == (stage, name) for key in found)
        found[stage, name, nth] = case
    return found


def _case(key: tuple[str, str, int], a: Row | None, b: Row | None) -> Contrast:
    a_us, b_us = _time(a), _time(b)
    ratio = b_us / a_us if a_us and b_us else None
    bounds = _bounds(ratio, a, b) if ratio and a and b else None
    ours, theirs = (None if case is None else str(case["verdict"]) for case in (a, b))
    outcome = _outcome(ratio, bounds)
    if ours != theirs:
        outcome = f"{ours or 'missing'} to {theirs or 'missing'}"
    elif ratio is None and key[0] != TIME:
        outcome = "same"
    return Contrast(key[1], key[0], a_us, b_us, ratio, bounds, outcome, ours, theirs)


def _time(case: Row | None) -> float | None:
    time_us = case.get("time_us") if case else None
    return time_us if time_us and time_us > 0 and isfinite(time_us) else None


def _bounds(ratio: float, a: Row, b: Row) -> tuple[float, float] | None:
    """The interval of the ratio, from the errors of both logarithms."""
    errors = [case.get("error") for case in (a, b)]
    if None in errors:
        return None
    squares = [float(error or 0.0) ** 2 for error in errors]
    total = sum(squares)
    half = min(reach(_freedom(squares, (a, b))) * sqrt(total), REACH_MAX)
    middle = log(ratio)
    return exp(middle - half), exp(middle + half)


def _freedom(squares: Sequence[float], cases: Sequence[Row]) -> float:
    """Welch's degrees of freedom; nothing where one is not known."""
    known = [case.get("freedom") or 0 for case in cases]
    pairs = [pair for pair in zip(squares, known, strict=True) if pair[0]]
    if not pairs or any(freedom < 1 for _, freedom in pairs):
        return 0.0
    return sum(squares) ** 2 / sum(square**2 / freedom for square, freedom in pairs)


def _outcome(ratio: float | None, bounds: tuple[float, float] | None) -> str:
    """What a ratio means.

    >>> _outcome(0.9, (0.85, 0.95)), _outcome(1.01, (0.99, 1.03)), _outcome(2.0, None)
    ('faster', 'same', 'unknown')
    """
    if ratio is None or bounds is None:
        return "unknown"
    low, high = bounds
    return "faster" if high < 1 else "slower" if low > 1 else "same"
