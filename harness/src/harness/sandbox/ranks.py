"""Ranks of one box: how their ends become one, and how exec starts several.

Run inside a box as a program of its own, so it imports nothing of ours. Its arguments are the
submitted file, the limit of processes (0: none is to be set), then the control socket of each rank.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable
from typing import NoReturn

CONTROL = 3
FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
_SIGNALLED = 128
_PR_SET_DUMPABLE = 4


def wait(workers: Iterable[int]) -> int:
    """The first status that is not 0, with which all other ranks are ended; reaps all the while."""
    left, status = set(workers), 0
    while left:
        pid, ended = os.wait()
        if pid not in left:
            continue
        left.remove(pid)
        code = os.waitstatus_to_exitcode(ended)
        if status == 0 and code != 0:
            status = code
            for other in left:
                os.kill(other, signal.SIGKILL)
    return status


def command(path: str) -> list[str]:
    """The program that serves a submitted file on the socket CONTROL."""
    return [sys.executable, *FLAGS, "-m", "harness.worker", str(CONTROL), path]


def _become_unreadable() -> None:
    """As pid 1 it is the workers' own user, who could otherwise change it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _start(path: str, control: int, controls: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(path, control, controls)
    return pid


def _become(path: str, control: int, controls: list[int]) -> NoReturn:
    try:
        mine = os.dup(control)
        for one in controls:
            os.close(one)
        os.dup2(mine, CONTROL)
        if mine != CONTROL:
            os.close(mine)
        program = command(path)
        os.execv(program[0], program)  # noqa: S606  (a program of our own)
    finally:
        os._exit(1)


def main() -> None:
    """Starts the ranks, and leaves as the first of them that failed, as a shell would tell it."""
    _become_unreadable()
    if processes_max := int(sys.argv[2]):
        resource.setrlimit(resource.RLIMIT_NPROC, (processes_max, processes_max))
    controls = [int(one) for one in sys.argv[3:]]
    status = wait([_start(sys.argv[1], one, controls) for one in controls])
    sys.exit(status if status >= 0 else _SIGNALLED - status)


if __name__ == "__main__":
    main()
