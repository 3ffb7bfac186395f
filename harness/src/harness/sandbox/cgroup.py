"""The control groups of one box: limits, freezer, resource usage, and a reliable kill.

The freezer works through files that are already open, in microseconds.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.sandbox import linux
from harness.sandbox.box import BoxSpec, Limits
from harness.sandbox.host import PREFIX, CgroupParents

FREEZE_S_MAX = 5.0

_STATE_BYTES_MAX = 128

_REMOVE_S_MAX = 5.0
_PAUSE_S = 0.001
_MIB = 1024**2
# Memory is charged to a group several pages at a time.
_CHARGE_BYTES = _MIB
MemoryKill = Literal["", "box", "machine"]
# v1 counts in shares; the default is 1024.
_SHARES_OF_WEIGHT = 10


# By version: what freezes and thaws, and what a freezer reports when everything is frozen.
_FREEZER_WORDS = {1: (b"FROZEN", b"THAWED", b"FROZEN\n"), 2: (b"1", b"0", b"frozen 1")}


@dataclass(frozen=True)
class Freezer:
    """The open files of a freezer of control groups v1 or v2: one to write, one to read.

    `spent` is the file of the group's CPU time, in v2 only. A group that no longer exists holds
    nothing that could run, so it counts as frozen.
    """

    version: int
    write: int
    read: int
    spent: int = -1

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files, in the order of the fields."""
        return tuple(file for file in (self.write, self.read, self.spent) if file >= 0)

    def freeze(self) -> bool:
        """Freeze everything in the group; False if something still runs."""
        command, _, frozen = _FREEZER_WORDS[self.version]
        try:
            os.pwrite(self.write, command, 0)
        except OSError:
            return True
        ends_at = 0.0
        with contextlib.suppress(OSError):
            while frozen not in os.pread(self.read, _STATE_BYTES_MAX, 0):
                now = time.monotonic()
                ends_at = ends_at or now + FREEZE_S_MAX
                if now > ends_at:
                    return False
        return True

    def thaw(self) -> None:
        """Let everything in the group run again."""
        _, command, _ = _FREEZER_WORDS[self.version]
        with contextlib.suppress(OSError):
            os.pwrite(self.write, command, 0)

    def close(self) -> None:
        """Close the files without changing the group."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def cpu_us(self) -> int | None:
        """Return the CPU microseconds of the group, if they are counted."""
        if self.spent < 0:
            return None
        try:
            return int(os.pread(self.spent, _STATE_BYTES_MAX, 0).split(maxsplit=2)[1])
        except (IndexError, OSError, ValueError):
            return None


class ControlGroup:
    """A box's groups, one folder per hierarchy; the process that creates it is its owner."""

    def __init__(self, places: CgroupParents, spec: BoxSpec) -> None:
        """Raises OSError if a group cannot be created or limited."""
        self._walls = spec.walls
        name = f"{_prefix()}{os.getpid()}-{linux.started_at(os.getpid())}"
        self._folders = {"": Path(places.unified) / name} if places.unified else {}
        for controller, parent in places.separate.items():
            if controller in spec.walls or (controller in ("cpu", "cpuset") and self._has_limits):
                self._folders[controller] = Path(parent) / name
        try:
            for folder in self._folders.values():
                folder.mkdir()
            self._set_limits(places, spec.limits)
            if self._has_limits:
                self._set_cpu_share(places, spec)
        except OSError:
            self.remove()
            raise

    @property
    def _has_limits(self) -> bool:
        return "memory" in self._walls or "pids" in self._walls

    def switch(self) -> Freezer | None:
        """Open the freezer's files, for a process that may not open them itself."""
        if "freezer" not in self._walls:
            return None
        read, write = os.O_RDONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_CLOEXEC
        if folder := self._folders.get(""):
            freeze = os.open(folder / "cgroup.freeze", write)
            cpu_stat = os.open(folder / "cpu.stat", read)
            return Freezer(2, freeze, os.open(folder / "cgroup.events", read), cpu_stat)
        state = self._folders["freezer"] / "freezer.state"
        return Freezer(1, os.open(state, write), os.open(state, read))

    def join(self) -> None:
        """Put this process, and everything it starts, into the groups."""
        for folder in self._folders.values():
            (folder / "cgroup.procs").write_text("0")

    def kill(self) -> None:
        """Kill everything inside, frozen or not, as far as this kernel can."""
        for folder in self._folders.values():
            kill_members(folder)

    def memory_kill(self) -> MemoryKill:
        """Return whether the kernel killed a process for memory, and whose limit was reached."""
        folder = self._folders.get("memory") or self._folders.get("")
        if folder is None:
            return ""
        files = ("memory.events", "memory.oom_control")
        if not any(_read_number(folder / file, "oom_kill") for file in files):
            return ""
        if (folder / files[0]).exists():
            return "box" if _read_number(folder / files[0], "oom") else "machine"
        # v1 does not count how often a group reached its limit.
        peak = _read_number(folder / "memory.max_usage_in_bytes", "")
        limit = _read_number(folder / "memory.limit_in_bytes", "")
        return "box" if peak + _CHARGE_BYTES >= limit else "machine"

    def usage(self) -> dict[str, float]:
        """Return CPU seconds and peak memory, where the kernel counts them."""
        usage = {}
        if "" in self._folders:
            usage["cpu_s"] = _read_number(self._folders[""] / "cpu.stat", "usage_usec") / 1e6
        memory = self._folders.get("memory") or self._folders.get("")
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            if memory is not None and (bytes_max := _read_number(memory / file, "")):
                usage["peak_memory_mib"] = bytes_max / _MIB
        return usage

    def remove(self) -> bool:
        """Remove the folders; False if a process is still inside."""
        ends_at = time.monotonic() + _REMOVE_S_MAX
        removed = [_remove_folder(folder, ends_at) for folder in self._folders.values()]
        return all(removed)

    def _set_limits(self, places: CgroupParents, limits: Limits) -> None:
        if "memory" in self._walls:
            if "memory" in places.controllers:
                self._write("", "memory.max", limits.memory_bytes)
                self._write("", "memory.swap.max", 0, is_optional=True)
                self._write("", "memory.oom.group", 1, is_optional=True)
            else:
                self._write("memory", "memory.limit_in_bytes", limits.memory_bytes)
                # Counts memory and swap together, where swap is counted.
                name = "memory.memsw.limit_in_bytes"
                self._write("memory", name, limits.memory_bytes, is_optional=True)
        if "pids" in self._walls:
            controller = "" if "pids" in places.controllers else "pids"
            self._write(controller, "pids.max", limits.processes_max)

    def _set_cpu_share(self, places: CgroupParents, spec: BoxSpec) -> None:
        """Restrict the box to its cores, and to its share of cores that it shares."""
        weight, cores = spec.limits.cpu_weight, ",".join(map(str, spec.cores))
        if "cpu" in places.controllers:
            self._write("", "cpu.weight", weight)
        elif "cpu" in self._folders:
            self._write("cpu", "cpu.shares", weight * _SHARES_OF_WEIGHT)
        if "cpuset" in places.controllers and cores:
            self._write("", "cpuset.cpus", cores)
        elif "cpuset" in self._folders:
            # In v1 both are empty in a new group, and then nothing may join it.
            parent = self._folders["cpuset"].parent
            for file, value in (("cpuset.cpus", cores), ("cpuset.mems", "")):
                self._write("cpuset", file, value or (parent / file).read_text().strip())

    def _write(
        self, controller: str, file: str, value: int | str, *, is_optional: bool = False
    ) -> None:
        if controller not in self._folders:
            raise OSError(f"no control group can limit {file}")
        path = self._folders[controller] / file
        if is_optional and not path.exists():
            return
        path.write_text(str(value))


def sweep_orphans(places: CgroupParents) -> None:
    """Kill and remove groups whose owners are gone."""
    for parent in {places.unified, *places.separate.values()} - {""}:
        for folder in Path(parent).glob(f"{_prefix()}*"):
            pid, _, started = folder.name.removeprefix(_prefix()).partition("-")
            if not pid.isdecimal() or linux.started_at(int(pid)) != started:
                kill_members(folder)
                _remove_folder(folder, time.monotonic() + _REMOVE_S_MAX)


def kill_members(folder: Path) -> None:
    """Kill everything in one group. What v1 froze must be thawed to die."""
    for file, value in (("cgroup.kill", "1"), ("freezer.state", "THAWED")):
        if (folder / file).exists():
            with contextlib.suppress(OSError):
                (folder / file).write_text(value)
    if not (folder / "cgroup.kill").exists():
        with contextlib.suppress(OSError):
            linux.kill(map(int, (folder / "cgroup.procs").read_text().split()))


def _prefix() -> str:
    """Return the prefix of groups whose owners' pids are valid in this pid namespace."""
    return f"{PREFIX}{Path('/proc/self/ns/pid').stat().st_ino}-"


def _remove_folder(folder: Path, ends_at: float) -> bool:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            # Killed processes leave their group a moment after their parent was notified.
            if time.monotonic() > ends_at:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _read_number(file: Path, key: str) -> int:
    """Return the number after a key, or the only one, in a file; 0 if there is none."""
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.rpartition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
