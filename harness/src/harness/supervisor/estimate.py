"""From samples to an estimate: pure arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev

SAMPLES_MIN = 10
SAMPLES_MAX = 200
_BLOCKS_FEW = 5
_BLOCKS = 10

# Two-sided 95 % quantiles of Student's t for four and nine degrees of freedom.
_T_QUANTILES = {_BLOCKS_FEW: 2.776, _BLOCKS: 2.262}


class TooFewSamples(ValueError):  # noqa: N818  (it names what is missing)
    """An estimate was asked of fewer samples than it needs."""

    def __init__(self, seen: int) -> None:
        super().__init__(f"an estimate needs {SAMPLES_MIN} samples and got {seen}")
        self.seen = seen


@dataclass(frozen=True)
class Estimate:
    """What samples say of one call, in microseconds; the interval has 95 % confidence."""

    time_us: float
    low_us: float
    high_us: float


def estimate(samples_us: Sequence[float]) -> Estimate:
    """The time of one call, from the samples of one process.

    Blocks of consecutive samples are the evidence, since neighbours share the machine's mood.

    Shapes: at least SAMPLES_MIN samples, in order of time.
    Units: microseconds in and out.
    Errors: TooFewSamples, with the number seen.
    Source: the timing policy's section 4: interquartile mean per block, t interval over blocks.

    >>> estimate([2.0] * 9 + [900.0]).low_us < 2.0 < estimate([2.0] * 10).time_us + 0.1
    True
    """
    if len(samples_us) < SAMPLES_MIN:
        raise TooFewSamples(len(samples_us))
    values = [interquartile_mean(block) for block in _blocks(samples_us)]
    centre = fmean(values)
    half = _T_QUANTILES[len(values)] * stdev(values) / sqrt(len(values))
    return Estimate(centre, max(0.0, centre - half), centre + half)


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half, values on its edges counted in part.

    >>> interquartile_mean([3.0, 3.0, 4.0, 900.0])
    3.5
    """
    ordered = sorted(values)
    cut = len(ordered) / 4
    whole = int(cut)
    inner = ordered[whole : len(ordered) - whole]
    edges = (cut - whole) * (inner[0] + inner[-1])
    return (sum(inner) - edges) / (len(ordered) - 2 * cut)


def _blocks(samples: Sequence[float]) -> list[Sequence[float]]:
    """Equal shares in order, of at least four samples where there are enough."""
    count = _BLOCKS if len(samples) >= 4 * _BLOCKS else _BLOCKS_FEW
    edges = [round(index * len(samples) / count) for index in range(count + 1)]
    return [samples[low:high] for low, high in pairwise(edges)]
