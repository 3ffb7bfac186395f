"""Two kernels timed in alternation, so that what moves the machine moves both."""

from collections.abc import Sequence
from itertools import cycle, islice
from math import log
from statistics import fmean, stdev

from harness.timing.estimators import reach

PAIRS = 40
DELTA = 0.0015
_PAIRS_MIN = 2


def order(pairs: int = PAIRS) -> str:
    """Whose block comes when: neither is always first, and a steady drift favours neither.

    >>> order(4)
    'ABBABAAB'
    """
    return "".join(islice(cycle(("AB", "BA", "BA", "AB")), pairs))


def decide(pairs: Sequence[tuple[float, float]]) -> str:
    """The faster one, `A` or `B`, or `equal`, by the block values of each pair.

    Shapes: at least two pairs, of A and B, whichever came first.
    Source: spec/timing.md 4: equal if |mean d| < max(0.15 %, t interval), d = ln(A / B).

    >>> decide([(100.0, 101.0), (100.1, 101.2), (99.9, 100.8)])
    'A'
    """
    if len(pairs) < _PAIRS_MIN:
        raise ValueError(f"a duel needs {_PAIRS_MIN} pairs and got {len(pairs)}")
    apart = [log(one / other) for one, other in pairs]
    middle = fmean(apart)
    half = reach(len(apart) - 1) * stdev(apart) / len(apart) ** 0.5
    if abs(middle) < max(DELTA, half):
        return "equal"
    return "A" if middle < 0 else "B"
