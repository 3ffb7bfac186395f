"""Becomes another program that cannot outlive the process that started it.

`python -I -S leash.py SIGNAL PARENT USER:GROUP|- PROGRAM ARGUMENT …`

A program of its own, because setting a death signal between fork and exec (`preexec_fn`) is
unsafe as soon as the parent has threads, and a change of user would clear it again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _become(user: str) -> None:
    if user != "-":
        uid, gid = (int(part) for part in user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _leash(number: int, parent: int) -> None:
    """Get `number` when the parent's thread ends; leave now if the parent ended before that."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0):
        sys.exit("prctl refused a death signal")
    if os.getppid() != parent:
        sys.exit(f"process {parent} is gone")


def main(arguments: list[str]) -> None:
    """Put on the leash and run the program in our place."""
    number, parent, user, *command = arguments
    _become(user)
    _leash(int(number), int(parent))
    # What Python ignores, a program after exec would ignore too.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execvp(command[0], command)  # noqa: S606  (the very purpose)


if __name__ == "__main__":
    main(sys.argv[1:])
