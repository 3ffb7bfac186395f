"""A fixed piece of work: how fast the processor is just now, told by the time that it takes."""

import importlib
import time
from collections.abc import Callable
from statistics import median
from typing import Any

_SIDE = 64
_PRODUCTS = 8
_PIECES = 14
# What ran before leaves its data in the caches: the first pieces take them back, and do not count.
_FIRST = 4


def prepared() -> Callable[[], float]:
    """The work, ready to be done: it returns microseconds for the median piece of it.

    A piece is 8 products of 64 x 64 matrices, about 40 us; there are 10 that count.
    """
    torch: Any = importlib.import_module("torch")
    one, other = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    product = torch.empty(_SIDE, _SIDE)

    def piece_us() -> float:
        began_ns = time.perf_counter_ns()
        for _ in range(_PRODUCTS):
            torch.mm(one, other, out=product)
        return (time.perf_counter_ns() - began_ns) / 1000

    def probe_us() -> float:
        return median([piece_us() for _ in range(_PIECES)][_FIRST:])

    return probe_us
