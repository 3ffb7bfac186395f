"""Processes beneath this one: how they are found and ended."""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

# A killed process goes once its memory is returned: 2 s for 1 GiB of page tables (2026-11).
END_S_MAX = 45.0
_PAUSE_S = 0.001


def end_descendants(within_s: float = END_S_MAX) -> bool:
    """Kills and reaps all that descends from this process, a reaper; True when none is left."""
    until = time.monotonic() + within_s
    while _has_children():
        if time.monotonic() > until:
            return False
        kill(descendants(os.getpid()))
        time.sleep(_PAUSE_S)
    return True


def end_others(known: Collection[int], within_s: float = END_S_MAX) -> bool:
    """Kills and reaps what descends from this process, a reaper, and from nobody known before."""
    until = time.monotonic() + within_s
    while others := set(descendants(os.getpid(), known)):
        if time.monotonic() > until:
            return False
        kill(others)
        for pid in others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_PAUSE_S)
    return True


def kill(pids: Iterable[int]) -> None:
    """Sends SIGKILL to each that is still there and ours to kill."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(ancestor: int, but: Collection[int] = ()) -> list[int]:
    """The processes beneath one, parents before their children, without some and all of theirs."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        if pid not in but:
            children.setdefault(int(fields[1]), []).append(pid)
    found, at = list(children.get(ancestor, [])), 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def is_any_running(ancestor: int, but: int) -> bool:
    """Whether a process beneath one, but for another, is on a core or waits for one."""
    beneath = set(descendants(ancestor)) - {but}
    return any(fields[0] == "R" for pid, fields in _stats() if pid in beneath)


def parent_of(pid: int) -> int:
    """The pid of a process's parent; 0 if there is none."""
    try:
        return int(_fields(Path(f"/proc/{pid}/stat"))[1])
    except OSError:
        return 0


def cpu_s(pid: int) -> float:
    """The processor time of a process and its threads; 0 if there is none."""
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started_at(pid: int) -> str:
    """When a process started, in the kernel's ticks; "" if there is none. With its pid unique."""
    try:
        return _fields(Path(f"/proc/{pid}/stat"))[19]
    except OSError:
        return ""


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(entry.name), _fields(entry / "stat")


def _fields(stat: Path) -> list[str]:
    """What follows the name, which may be anything, parentheses and line breaks included."""
    return stat.read_bytes().rpartition(b")")[2].decode("ascii").split()


def _has_children() -> bool:
    """Reaps those that ended; whether others are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
