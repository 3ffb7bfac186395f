"""Keeps a worker's core awake until its call begins: a sleeping one costs tens of microseconds."""

import mmap
import os
import signal
import time
from typing import NoReturn

from harness.sandbox import linux

_AWAKE, _RELEASED = 0, 1
_WAKE_NS_MAX = 2_000_000
_SPINS_MAX = 50_000_000


class Warmer:
    """A process on the worker's core that spins from `wake` until `release`, and sleeps else.

    It is gone from the core before the worker needs it, for it lets go when it is told; and a
    worker that is woken first pushes it aside, since it has the lowest priority there is. Where the
    workers have no core of their own (None) it does nothing.
    """

    def __init__(self, core: int | None) -> None:
        self._child = 0
        if core is None:
            return
        self._flags = mmap.mmap(-1, mmap.PAGESIZE)
        heard, self._said = os.pipe()
        parent = os.pidfd_open(os.getpid())
        self._child = os.fork()
        if self._child == 0:
            os.close(self._said)
            self._spin_when_told(heard, core, parent)
        os.close(heard)
        os.close(parent)

    def wake(self) -> None:
        """Returns when the core is awake, or after 2 ms in any case."""
        if not self._child:
            return
        self._flags[_AWAKE] = self._flags[_RELEASED] = 0
        os.write(self._said, b".")
        until = time.perf_counter_ns() + _WAKE_NS_MAX
        while not self._flags[_AWAKE] and time.perf_counter_ns() < until:
            continue

    def release(self) -> None:
        """Lets the core go."""
        if not self._child:
            return
        self._flags[_RELEASED] = 1

    def close(self) -> None:
        """Ends the process."""
        if not self._child:
            return
        os.close(self._said)
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)

    def _spin_when_told(self, heard: int, core: int, parent: int) -> NoReturn:
        try:
            linux.die_with(parent)
            os.sched_setaffinity(0, [core])
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            flags = self._flags
            while os.read(heard, 1):
                flags[_AWAKE] = 1
                for _ in range(_SPINS_MAX):
                    if flags[_RELEASED]:
                        break
        finally:
            os._exit(0)
