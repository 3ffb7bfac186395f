"""What a duel found, in words."""

from math import log


def difference_text(ratio: float, interval: tuple[float, float]) -> str:
    """By how much the faster side is faster, as a share of the slower one's time.

    `ratio` is one side's time over the other's, with its interval.

    >>> difference_text(0.996, (0.995, 0.997)), difference_text(2.0, (1.99, 2.01))
    ('0.4 % ± 0.1 %', '50 % ± 0.5 %')
    """
    share = 1 - min(ratio, 1 / ratio)
    low, high = interval
    return f"{100 * share:.2g} % ± {50 * log(high / low):.2g} %"
