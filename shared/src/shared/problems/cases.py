"""The cases of a problem: typed arguments of its generator, and the score of their times."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from typing import Any, get_args

from shared.api.fields import RankingBy
from shared.problems.document import Document, Path, quote_value

INT_MAX = 2**63 - 1
ARGUMENTS_MAX = 64
NAME_CHARS_MAX = 300
LISTS_DEPTH_MAX = 4
NAMELESS = "case"

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}\Z")
_JSON_WORDS = ("true", "false", "null")


@dataclass(frozen=True)
class Case:
    """One input of a problem: ordered keyword arguments, and the name built from them."""

    name: str
    args: Mapping[str, Any]


def read_cases(document: Document, key: str) -> list[Case]:
    """Read the cases under `tests` or `benchmarks`. Errors: Refused for unsupported types."""
    items = document.value.get(key) or []
    return [_read_case(document, (key, index), args) for index, args in enumerate(items)]


def case_name(args: Mapping[str, Any]) -> str:
    """Return a case's display name: words are bare, other values are JSON, no arguments are `case`.

    >>> case_name({"size": 64, "shape": [2, 3], "mode": "flat", "on": False, "seed": 7})
    'size=64 shape=[2,3] mode=flat on=false seed=7'
    """
    return " ".join(f"{key}={_value_text(value)}" for key, value in args.items()) or NAMELESS


def _value_text(value: object) -> str:
    if isinstance(value, str) and _BARE.match(value) and value not in _JSON_WORDS:
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _read_case(document: Document, path: Path, args: dict[str, Any]) -> Case:
    if len(args) > ARGUMENTS_MAX:
        document.refuse(path, f"a case with {len(args)} arguments: at most {ARGUMENTS_MAX}")
    for key, value in args.items():
        if not _ARGUMENT.match(key):
            reason = f"{quote_value(key)} is not an argument name: use letters, digits and _"
            document.refuse((*path, key), reason)
        _check_value(document, (*path, key), value)
    seed = args.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        reason = f"{quote_value(seed)} is not a seed: write a non-negative integer"
        document.refuse((*path, "seed"), reason)
    name = case_name(args)
    if len(name) > NAME_CHARS_MAX:
        reason = f"the case's name has {len(name)} characters, at most {NAME_CHARS_MAX} are allowed"
        document.refuse(path, f"{reason}: write shorter values")
    return Case(name, args)


def _check_value(document: Document, path: Path, value: object, depth: int = 0) -> None:
    if isinstance(value, list):
        if depth == LISTS_DEPTH_MAX:
            document.refuse(path, f"lists nested deeper than {LISTS_DEPTH_MAX}: use fewer levels")
        for index, item in enumerate(value):
            _check_value(document, (*path, index), item, depth + 1)
    elif isinstance(value, dict):
        document.refuse(path, "an argument is a bool, int, float, str, null or list, not a map")
    elif isinstance(value, int) and not -INT_MAX - 1 <= value <= INT_MAX:
        document.refuse(
            path, f"{quote_value(value)} does not fit in 64 bits: write a smaller number"
        )
    elif isinstance(value, float) and not isfinite(value):
        document.refuse(path, f"{quote_value(value)} is not finite: write a finite number")


RANKINGS = get_args(RankingBy)


def score_us(ranking_by: str, times_us: Sequence[float]) -> float | None:
    """Return the value a leaderboard sorts by, lower first; None if a time is not plausible.

    Units: microseconds in and out. A time that is not finite, or is smaller than the smallest
    normal number, makes the whole score None: one false zero would win a geometric mean.
    Errors: ValueError for a ranking that is not in RANKINGS.

    >>> score_us("last", [5.0, 2.0]), score_us("mean", [5.0, 2.0])
    (2.0, 3.5)
    >>> round(score_us("geom", [1.0, 100.0]), 9)
    10.0
    >>> score_us("geom", [0.0, 100.0]) is score_us("mean", []) is None
    True
    """
    if ranking_by not in RANKINGS:
        raise ValueError(f"unknown ranking {ranking_by!r}: expected {', '.join(RANKINGS)}")
    if not all(isfinite(time_us) and time_us >= sys.float_info.min for time_us in times_us):
        return None
    if not times_us:
        return None
    count = len(times_us)
    if ranking_by == "last":
        return times_us[-1]
    if ranking_by == "mean":
        # Divide first: the sum of two large times can overflow.
        return sum(time / count for time in times_us)
    return exp(sum(log(time) for time in times_us) / count)
