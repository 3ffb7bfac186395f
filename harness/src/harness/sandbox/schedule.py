"""How long a thread wanted a core and had none, as Linux counts it."""

import os

_BYTES_MAX = 128
_OWN = "/proc/thread-self/schedstat"


def own() -> int:
    """The account of the calling thread, to be closed; -1 where there is none."""
    try:
        return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def waited_us(descriptor: int) -> float:
    """Microseconds so far, by an open `schedstat` of /proc; 0 where there is none.

    Source: Documentation/scheduler/sched-stats.rst: its second number, in nanoseconds.
    """
    try:
        return int(os.pread(descriptor, _BYTES_MAX, 0).split()[1]) / 1000
    except (IndexError, OSError, ValueError):
        return 0.0
