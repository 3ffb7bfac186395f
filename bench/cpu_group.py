"""The processor time of a group of processes: what they took, and every process they started.

A box ends without a parent that would count its time, so only a control group has the whole. Where
the machine lets us make none, the time of the whole machine stands in for it.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.noop_platform import machine_cpu_s
from harness.sandbox.linux import descendants

# A folder in which control groups can be made, the file of a group with its time, and its unit.
PLACES = (
    (Path("/sys/fs/cgroup/cpuacct"), "cpuacct.usage", 1e-9),
    (Path("/sys/fs/cgroup/cpu,cpuacct"), "cpuacct.usage", 1e-9),
    (Path("/sys/fs/cgroup"), "cpu.stat", 1e-6),
    (Path("/sys/fs/cgroup/unified"), "cpu.stat", 1e-6),
)


class CpuGroup:
    """Processes whose processor time is counted together; without a folder, the whole machine."""

    def __init__(self, folder: Path | None = None, file: str = "", unit_s: float = 0.0) -> None:
        self._folder, self._file, self._unit_s = folder, file, unit_s

    @property
    def is_exact(self) -> bool:
        """Whether only these processes are counted."""
        return self._folder is not None

    def add(self, pid: int) -> None:
        """Count a process from now on, with its living descendants and all later ones."""
        if self._folder is not None:
            _move([pid, *descendants(pid)], self._folder)

    @contextlib.contextmanager
    def started_here(self) -> Iterator[None]:
        """Count this process, and for ever what it starts in this context."""
        if self._folder is None:
            yield
            return
        _move([os.getpid()], self._folder)
        try:
            yield
        finally:
            _move([os.getpid()], self._folder.parent)

    def cpu_s(self) -> float:
        """Return the processor time of the group so far, in seconds."""
        if self._folder is None:
            return machine_cpu_s()
        text = (self._folder / self._file).read_text()
        # cpu.stat has lines of a name and a number, cpuacct.usage a number.
        return int(text.removeprefix("usage_usec").split()[0]) * self._unit_s


@contextlib.contextmanager
def cpu_group() -> Iterator[CpuGroup]:
    """Yield an empty group, which exists until the end of the context."""
    for parent, file, unit_s in PLACES:
        folder = parent / f"warpboard-bench-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / file).exists():
                yield CpuGroup(folder, file, unit_s)
                return
        finally:
            _move(map(int, (folder / "cgroup.procs").read_text().split()), parent)
            with contextlib.suppress(OSError):
                folder.rmdir()
    yield CpuGroup()


def _move(pids: Iterable[int], folder: Path) -> None:
    for pid in pids:
        # It may have ended.
        with contextlib.suppress(OSError):
            (folder / "cgroup.procs").write_text(str(pid))
