"""Real-time priority for the referee during a call, and how long it waited for its core.

The referee is the thread that times calls. While it waits for its core, its clock runs on, so what
other processes do would count as the submission's time. During a call it therefore runs at a
real-time priority, if this machine allows that and the workers have cores of their own. It gives
the priority up after each call. No child inherits it, and a limit of the kernel ends a referee that
keeps its core.
"""

import contextlib
import os
import resource
import signal
import time
from types import FrameType, TracebackType
from typing import NoReturn

from harness.sandbox import linux
from harness.sandbox.box import SandboxFault

# The lowest one: it precedes every process without a real-time priority.
PRIORITY = 1
# Freezing a box polls without sleeping for at most 5 s.
HELD_S_MAX = 10
_KILLED_AFTER_S = 15

_US_LIMITS = 1_000_000 * HELD_S_MAX, 1_000_000 * _KILLED_AFTER_S
# The kernel counts time at the priority until the thread sleeps, also over several calls.
_HELD_NS_MAX = 1_000_000_000
# A shorter sleep may end before the thread has left its core; then the count goes on.
_REST_S = 50e-6
_SCHEDSTAT = "/proc/thread-self/schedstat"
_SCHEDSTAT_BYTES_MAX = 64


def permit(*, may_keep_capability: bool) -> int:
    """Allow this process the priority; return the mask of capabilities that it must keep for it.

    Call it before privileges are dropped. A process without the right to raise its limit keeps
    CAP_SYS_NICE if it may: `seccomp.forbid_foreign_scheduling` confines that to the process itself.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTTIME, _US_LIMITS)
        resource.setrlimit(resource.RLIMIT_RTPRIO, (PRIORITY, PRIORITY))
        return 0
    is_kept = may_keep_capability and linux.has_capability(linux.CAP_SYS_NICE)
    return 1 << linux.CAP_SYS_NICE if is_kept else 0


def forbid() -> None:
    """Forbid this process and its children every real-time priority, irrevocably."""
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def find_obstacle() -> str:
    """Return why this thread cannot use the priority, "" if it can. It is not kept."""
    try:
        _raise_priority()
    except OSError as error:
        return os.strerror(error.errno or 0)
    _give_up_priority()
    return ""


def _raise_priority() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))


def _give_up_priority() -> None:
    # Without a privilege the flag cannot be cleared again.
    os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


class Referee:
    """The thread that creates this, as the referee: `with referee:` surrounds each timed call.

    `is_realtime` says whether it runs at the priority then. `has_own_core` must be false if workers
    run on its core: a referee that polls would keep them from it. So must `is_alone` be, which may
    change between calls, while other runs use the device.
    """

    def __init__(self, *, has_own_core: bool = False) -> None:
        self._held_ns = self._began_ns = 0
        self._schedstat = -1
        self.is_alone = True
        # There is no such file in a kernel without CONFIG_SCHED_INFO.
        with contextlib.suppress(OSError):
            self._schedstat = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        self.is_realtime = has_own_core and not find_obstacle()
        self._is_raised = False
        if self.is_realtime:
            signal.signal(signal.SIGXCPU, _report_held)

    def __enter__(self) -> None:
        self._is_raised = self.is_realtime and self.is_alone
        if self._is_raised:
            self._began_ns = time.monotonic_ns()
            _raise_priority()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._is_raised:
            return
        try:
            self._held_ns += time.monotonic_ns() - self._began_ns
            if self._held_ns > _HELD_NS_MAX:
                self._held_ns = 0
                time.sleep(_REST_S)
        finally:
            _give_up_priority()

    def waited_us(self) -> float:
        """Return how long this thread has waited for its core so far; 0 if it is not counted."""
        if self._schedstat < 0:
            return 0.0
        # The second number (Documentation/scheduler/sched-stats.rst).
        return int(os.pread(self._schedstat, _SCHEDSTAT_BYTES_MAX, 0).split()[1]) / 1000

    def describe(self) -> dict[str, str]:
        """Return what the records of a run should say about it."""
        return {"referee_priority": "real-time" if self.is_realtime else "normal"}


def _report_held(_signal: int, _frame: FrameType | None) -> NoReturn:
    reason = f"the referee kept its core at a real-time priority for {HELD_S_MAX} s"
    raise SandboxFault(reason)
