"""How long a thread wanted a core and had none, as Linux counts it."""

import os

_BYTES_MAX = 128


def waited_us(descriptor: int) -> float:
    """Microseconds so far, by an open `schedstat` of /proc; 0 where there is none.

    Source: Documentation/scheduler/sched-stats.rst: its second number, in nanoseconds.
    """
    try:
        return int(os.pread(descriptor, _BYTES_MAX, 0).split()[1]) / 1000
    except (IndexError, OSError, ValueError):
        return 0.0
