"""Finds and ends processes beneath this one."""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator

# A killed process ends after its memory is freed: 2 s for 1 GiB of page tables (2026-11).
END_S_MAX = 45.0
# Pauses grow, because each look reads all of /proc.
_PAUSE_S, _PAUSE_S_MAX = 0.001, 0.05


def end_descendants(within_s: float = END_S_MAX) -> bool:
    """Kill and reap all descendants of this process, a reaper; True when none is left."""
    ends_at, pause_s = time.monotonic() + within_s, _PAUSE_S
    while True:
        try:
            # Reap those that ended, until others alone are left.
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return True
        if time.monotonic() > ends_at:
            return False
        kill(descendants(os.getpid()))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def end_others(known: Collection[int], within_s: float = END_S_MAX) -> bool:
    """Kill and reap descendants of this process, a reaper, except known ones and theirs."""
    ends_at, pause_s = time.monotonic() + within_s, _PAUSE_S
    while others := set(descendants(os.getpid(), known)):
        if time.monotonic() > ends_at:
            return False
        kill(others)
        for pid in others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return True


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists and may be killed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def descendants(ancestor: int, but: Collection[int] = ()) -> list[int]:
    """Return the processes beneath one, parents first, without those in `but` and theirs."""
    children: dict[int, list[int]] = {}
    for pid, fields in _read_stats():
        if pid not in but:
            children.setdefault(int(fields[1]), []).append(pid)
    pids, index = list(children.get(ancestor, [])), 0
    while index < len(pids):
        pids += children.get(pids[index], [])
        index += 1
    return pids


def is_any_running(ancestor: int, but: int) -> bool:
    """Return whether a process beneath one, except another, is running or waits for a core."""
    pids = set(descendants(ancestor)) - {but}
    return any(fields[0] == "R" for pid, fields in _read_stats() if pid in pids)


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent; 0 if there is none."""
    try:
        return int(_read_fields(pid)[1])
    except OSError:
        return 0


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads; 0 if it does not exist."""
    try:
        fields = _read_fields(pid)
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started_at(pid: int) -> str:
    """Return when a process started, in kernel ticks; "" if there is none. Unique with the pid."""
    try:
        return _read_fields(pid)[19]
    except OSError:
        return ""


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    for name in os.listdir("/proc"):  # noqa: PTH208 A `Path` per process takes half of the time.
        if name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(name), _read_fields(int(name))


def _read_fields(pid: int) -> list[str]:
    """Return what follows the name, which may contain anything, even parentheses."""
    stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(stat, 4096).rpartition(b")")[2].decode("ascii").split()
    finally:
        os.close(stat)
