"""Duels: two submissions in separate boxes, each the yardstick of the other."""

from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from harness.build.teams import Machine
from harness.messages import DuelReport
from harness.problem import Case
from harness.ranking_rules import combine_times
from harness.sandbox.box import SandboxFault
from harness.time.estimators import DELTA, estimate_ratio
from harness.time.stage import StageTimer

_WALLS = ("namespaces", "freezer")


def require_walls(machine: Machine) -> None:
    """Raise SandboxFault if two submissions cannot be separated or frozen here."""
    missing = [wall for wall in _WALLS if wall not in machine.walls]
    if missing:
        walls = " and ".join(missing)
        raise SandboxFault(f"a duel needs the walls {' and '.join(_WALLS)}; missing: {walls}")


def run_duel(timer: StageTimer, cases: Sequence[Case], ranking_by: str) -> DuelReport:
    """Return which side is faster.

    The n-th blocks of all cases make the n-th pair of scores, by the problem's ranking rule.
    Raises the errors of StageTimer.
    """
    by_case = timer.run_duel(cases)
    weights = [case.weight for case in cases]
    pairs = [
        (
            combine_times(ranking_by, [value_a for value_a, _ in case_pairs], weights),
            combine_times(ranking_by, [value_b for _, value_b in case_pairs], weights),
        )
        for case_pairs in zip(*by_case, strict=True)
    ]
    shorter_us = min(fmean(side) for side in zip(*pairs, strict=True))
    return compare(pairs, timer.policy.looks[-1], timer.policy.sigma_at(shorter_us))


def compare(pairs: Sequence[tuple[float, float]], round_pairs: int, sigma: float) -> DuelReport:
    """Compare two kernels by the scores of A and B of each pair; so many in a row are a round.

    They are equal if the difference is within its 95 % interval, or under 0.15 %.
    """
    differences = [log(a / b) for a, b in pairs]
    starts = range(0, len(pairs), round_pairs)
    ratio = estimate_ratio([differences[at : at + round_pairs] for at in starts], sigma)
    is_equal = abs(ratio.log) < max(DELTA, ratio.half_width)
    winner = "equal" if is_equal else "A" if ratio.log < 0 else "B"
    return DuelReport(
        winner,
        ratio=exp(ratio.log),
        interval=ratio.interval,
        pairs_us=list(pairs),
        round_pairs=round_pairs,
    )
