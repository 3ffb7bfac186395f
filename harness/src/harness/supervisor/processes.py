"""Processes beneath this one: how they are bound to it, found and ended."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
END_S_MAX = 10.0


def die_with(parent: int, by: signal.Signals) -> None:
    """This process gets the signal when its parent ends; it ends at once if that came first."""
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os._exit(1)


def become_reaper() -> None:
    """Descendants whose parents end become children of this process, however they hid."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def become_unreadable() -> None:
    """Other processes of this user can no longer read this one's memory or descriptors."""
    _prctl(_PR_SET_DUMPABLE, 0)


def end_descendants(within_s: float = END_S_MAX) -> bool:
    """Kills and reaps all that descends from this process, a reaper; True when none is left."""
    until = time.monotonic() + within_s
    while _has_children():
        if time.monotonic() > until:
            return False
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    return True


def descendants(ancestor: int) -> list[int]:
    """The processes beneath one, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, at = list(children.get(ancestor, [])), 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # A process may have any name, parentheses and line breaks included.
                stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                yield int(entry.name), int(stat[1])


def _has_children() -> bool:
    """Reaps those that ended; whether others are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")
