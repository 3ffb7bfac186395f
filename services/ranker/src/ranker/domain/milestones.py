"""Milestones: who meets one, decided from what counts on a leaderboard, said once and for ever."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import NamedTuple

from ranker.domain.baselines import speedup
from shared.events import Milestone, MilestoneReached
from shared.problems.milestones import CASES_PASSED, ROOFLINE, SCORE, VS_BASELINE, holds

US = 1e-6
# What is read is a little more than what holds: the decision itself compares exactly.
MARGIN = 1e-6


class Candidate(NamedTuple):
    """Somebody who may have met a milestone: a score in microseconds, or a number of cases."""

    account: str
    submission: str
    measured: float


class Bounds(NamedTuple):
    """Between which measures whoever meets a milestone is, both of them included."""

    low: float
    high: float


@dataclass(frozen=True)
class Scale:
    """What scores are held against on a leaderboard; `roof_us` is the score at the roofline."""

    baselines_us: Mapping[str, float] = field(default_factory=dict)
    roof_us: float | None = None

    def value(self, metric: str, measured: float) -> float | None:
        """What a metric says of a measure; None while there is nothing to hold it against.

        >>> Scale({"eager": 30.0}).value("vs_baseline.eager", 10.0), Scale().value("score", 2e6)
        (3.0, 2.0)
        """
        if metric == CASES_PASSED:
            return measured
        if metric == SCORE:
            return measured * US
        return speedup(self._unit_us(metric), measured)

    def bounds(self, one: Milestone) -> Bounds | None:
        """Which measures may meet a milestone; None while none can."""
        if one.metric == CASES_PASSED:
            return _counted(one.op, one.value)
        if one.metric == SCORE:
            return _between(one.value / US, is_from=one.op in (">", ">="))
        unit_us = self._unit_us(one.metric)
        if unit_us is None:
            return None
        # A share grows as the time gets less.
        edge = unit_us / one.value if one.value > 0 else inf
        return _between(edge, is_from=one.op in ("<", "<="))

    def _unit_us(self, metric: str) -> float | None:
        if metric == ROOFLINE:
            return self.roof_us
        return self.baselines_us.get(metric.removeprefix(VS_BASELINE))


def _between(edge: float, *, is_from: bool) -> Bounds:
    return Bounds(edge * (1 - MARGIN), inf) if is_from else Bounds(0.0, edge * (1 + MARGIN))


def _counted(op: str, value: float) -> Bounds:
    if op in (">", ">="):
        return Bounds(nextafter(value, inf) if op == ">" else value, inf)
    return Bounds(0.0, nextafter(value, -inf) if op == "<" else value)


def on(milestones: Iterable[Milestone], gpu: str) -> list[Milestone]:
    """Those that can be reached on a GPU type."""
    return [one for one in milestones if one.gpu in ("", gpu)]


def reached(
    problem_number: int,
    one: Milestone,
    candidates: Iterable[Candidate],
    scale: Scale,
    known: Collection[str] = (),
) -> list[MilestoneReached]:
    """Who meets a milestone now and did not before; `known` are the accounts that did.

    Of several submissions of a participant the first that is given says it.
    """
    found: dict[str, MilestoneReached] = {}
    for candidate in candidates:
        value = scale.value(one.metric, candidate.measured)
        is_new = candidate.account not in found and candidate.account not in known
        if value is not None and is_new and holds(value, one.op, one.value):
            found[candidate.account] = MilestoneReached(
                problem_number=problem_number,
                milestone=one.id,
                title=one.title,
                account=candidate.account,
                submission=candidate.submission,
                value=value,
            )
    return list(found.values())
