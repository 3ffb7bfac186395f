"""The ranks of one box: how several statuses become one, and how exec starts several ranks.

Run inside a box as its own program, so it imports nothing of ours. Its arguments are the submitted
file, the limit of processes (0 for none), and the control socket of each rank.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable

CONTROL = 3
FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
_SIGNALLED = 128
_PR_SET_DUMPABLE = 4


def wait_for_ranks(workers: Iterable[int]) -> int:
    """Return the first status that is not 0, after which the other ranks are killed.

    Reaps all children while it waits.
    """
    running, status = set(workers), 0
    while running:
        pid, wait_status = os.wait()
        if pid not in running:
            continue
        running.remove(pid)
        code = os.waitstatus_to_exitcode(wait_status)
        if status == 0 and code != 0:
            status = code
            for other in running:
                os.kill(other, signal.SIGKILL)
    return status


def worker_command(path: str) -> list[str]:
    """Return the program that serves a submitted file on the socket CONTROL."""
    return [sys.executable, *FLAGS, "-m", "harness.worker.server", str(CONTROL), path]


def _start_rank(path: str, control: int, controls: list[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        own_control = os.dup(control)
        for descriptor in controls:
            os.close(descriptor)
        os.dup2(own_control, CONTROL)
        if own_control != CONTROL:
            os.close(own_control)
        program = worker_command(path)
        os.execv(program[0], program)  # noqa: S606  (a program of our own)
    finally:
        os._exit(1)


def main() -> None:
    """Start the ranks, and exit like a shell with the status of the first that failed."""
    # This is pid 1, and runs as the workers' own user.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if processes_max := int(sys.argv[2]):
        resource.setrlimit(resource.RLIMIT_NPROC, (processes_max, processes_max))
    controls = [int(descriptor) for descriptor in sys.argv[3:]]
    status = wait_for_ranks([_start_rank(sys.argv[1], control, controls) for control in controls])
    sys.exit(status if status >= 0 else _SIGNALLED - status)


if __name__ == "__main__":
    main()
