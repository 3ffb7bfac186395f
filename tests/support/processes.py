"""Processes of this machine: how they are looked up, and stopped for a while."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.sandbox import linux

BUSY_S_MAX = 60


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    """Stop a process meanwhile: it is there and does nothing."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def busy_process(core: int) -> Iterator[None]:
    """Keep a core busy meanwhile, by a process in a session of its own, for at most a minute."""
    parent = os.pidfd_open(os.getpid())
    pid = os.fork()
    if pid == 0:
        try:
            linux.die_with_parent(parent)
            os.setsid()
            os.sched_setaffinity(0, [core])
            ends_at = time.monotonic() + BUSY_S_MAX
            while time.monotonic() < ends_at:
                continue
        finally:
            os._exit(0)
    os.close(parent)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def command_of(pid: int) -> str:
    """Return the command line of a process, its words separated by spaces; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def name_of(pid: int) -> str:
    """Return the name of a process in lists, "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def descendants(pid: int, word: str) -> dict[int, int]:
    """Return the processes below `pid` whose command line has a word, each with its parent.

    The oldest come first; pids start from the beginning when they are used up.
    """
    parents, ages = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (process / "stat").read_text()
            fields = stat.rpartition(") ")[2].split()
            parents[int(process.name)] = int(fields[1])
            ages[int(process.name)] = int(fields[19]), int(process.name)
    below: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - below
        below |= fresh
    return {
        one: parents[one] for one in sorted(below, key=ages.__getitem__) if word in command_of(one)
    }


def leaves_below(pid: int) -> list[int]:
    """Return the processes below `pid` that have no children; reads no other processes' entries."""
    leaves: list[int] = []
    waiting = _children(pid)
    while waiting:
        child = waiting.pop()
        children = _children(child)
        waiting += children
        leaves += [] if children else [child]
    return leaves


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found
