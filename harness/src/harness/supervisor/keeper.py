"""Two processes that watch each other, so that a kill of either leaves nothing behind.

The keeper forks the supervisor and does nothing but wait. Both adopt every orphan beneath them;
whichever is left when the other ends, or when the entry's process ends, kills all that descends
from it. Only the entry's SIGTERM, a death and the end of the run are ever acted on.
"""

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import NoReturn

from harness.supervisor import processes

_WATCHED = (signal.SIGTERM, signal.SIGCHLD)
_LOOK_S = 1.0


def guard(parent: int) -> Path:
    """Returns in the supervisor, a fork, with the run's scratch folder; the caller keeps watch."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    processes.become_reaper()
    processes.die_with(parent, signal.SIGTERM)
    scratch = Path(tempfile.mkdtemp(prefix="warpboard-"))
    keeper = os.getpid()
    child = os.fork()
    if child != 0:
        _keep(child, scratch)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: _leave(scratch))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    processes.die_with(keeper, signal.SIGTERM)
    processes.become_unreadable()
    processes.become_reaper()
    return scratch


def _keep(child: int, scratch: Path) -> NoReturn:
    while _is_running(child):
        # The signals are only hints: the look itself is bounded, should one be lost.
        received = signal.sigtimedwait(_WATCHED, _LOOK_S)
        if received is not None and received.si_signo == signal.SIGTERM:
            break
    _leave(scratch)


def _is_running(child: int) -> bool:
    """Reaps whatever ended; adopted orphans beside the supervisor are of no interest."""
    while True:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid in (0, child):
            return pid == 0


def _leave(scratch: Path) -> NoReturn:
    processes.end_descendants()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)
