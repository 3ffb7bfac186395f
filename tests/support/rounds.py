"""Comparisons of measured times: how often they are repeated, and how often they are wrong."""

from collections.abc import Callable

ROUNDS = 5


def holds_in_a_round(compare: Callable[[], bool]) -> bool:
    """Return whether a comparison of measured times holds in one of `ROUNDS` rounds.

    Each round measures both sides again, so what disturbed one round is over in the next. If a
    round is wrong with probability p, all five are with p**5: below 1 in 10,000 for every p up to
    0.15. docs/adr/tests.md lists the measured rounds of each comparison, and how far from wrong.
    """
    return any(compare() for _ in range(ROUNDS))
