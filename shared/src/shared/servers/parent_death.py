"""Run another program so that it cannot outlive the process that started it.

`python -I -S parent_death.py SIGNAL PARENT USER:GROUP|- PROGRAM ARGUMENT …`

This is a program of its own, because setting a death signal between fork and exec (`preexec_fn`) is
unsafe as soon as the parent has threads, and a change of user would clear the signal again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _set_death_signal(number: int, parent: int) -> None:
    """Request `number` when the parent's thread ends; exit now if the parent already ended."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0):
        sys.exit("prctl refused a death signal")
    if os.getppid() != parent:
        sys.exit(f"process {parent} is gone")


def main(arguments: list[str]) -> None:
    """Set the death signal and become the program."""
    number, parent, user, *command = arguments
    if user != "-":
        uid, gid = (int(part) for part in user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    _set_death_signal(int(number), int(parent))
    # Signals that Python ignores would stay ignored after exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execvp(command[0], command)  # noqa: S606  (its purpose)


if __name__ == "__main__":
    main(sys.argv[1:])
