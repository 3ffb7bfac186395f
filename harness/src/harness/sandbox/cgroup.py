"""The control groups of one box: limits, freezer, what was used, and the certain kill."""

import contextlib
import os
import time
from pathlib import Path
from typing import Literal

from harness.sandbox import processes
from harness.sandbox.cgroup_places import PREFIX, Places
from harness.sandbox.freezer import Switch
from harness.sandbox.spec import Limits, Spec

_REMOVE_S_MAX = 5.0
_PAUSE_S = 0.001
_MIB = 1024**2
# Memory is charged to a group some pages at a time.
_CHARGE_BYTES = _MIB
MemoryKill = Literal["", "box", "machine"]
# v1 counts in shares, of which others have 1024.
_SHARES_OF_WEIGHT = 10


class Group:
    """A box's groups, one folder for each hierarchy; the process that makes it is its owner."""

    def __init__(self, places: Places, spec: Spec) -> None:
        """Errors: OSError, if one cannot be made or limited."""
        self._walls = spec.walls
        self._unified = places.unified
        name = _name(os.getpid())
        self._folder = {"": Path(places.unified) / name} if places.unified else {}
        for controller, parent in places.separate.items():
            if controller in spec.walls or (controller in ("cpu", "cpuset") and self._has_limits):
                self._folder[controller] = Path(parent) / name
        try:
            for folder in self._folder.values():
                folder.mkdir()
            self._limit(places, spec.limits)
            if self._has_limits:
                self._share_processor(places, spec)
        except OSError:
            self.remove()
            raise

    @property
    def _has_limits(self) -> bool:
        """Whether this box is limited by control groups at all."""
        return "memory" in self._walls or "pids" in self._walls

    def switch(self) -> Switch | None:
        """The freezer's files, newly opened, for a process that may not open them itself."""
        if "freezer" not in self._walls:
            return None
        if "" in self._folder:
            version, folder = 2, self._folder[""]
            names = ("cgroup.freeze", "cgroup.events")
        else:
            version, folder = 1, self._folder["freezer"]
            names = ("freezer.state", "freezer.state")
        read = os.O_RDONLY | os.O_CLOEXEC
        write = os.open(folder / names[0], os.O_WRONLY | os.O_CLOEXEC)
        spent = os.open(folder / "cpu.stat", read) if version == 2 else -1
        return Switch(version, write, os.open(folder / names[1], read), spent)

    def join(self) -> None:
        """Puts this process, and all it will start, into the groups."""
        for folder in self._folder.values():
            (folder / "cgroup.procs").write_text("0")

    def kill(self) -> None:
        """Kills all that is inside, frozen or not, as far as this kernel can."""
        for folder in self._folder.values():
            kill_members(folder)

    def memory_kill(self) -> MemoryKill:
        """Whether the kernel killed a process inside for want of memory, and whose limit it met."""
        folder = self._folder.get("memory") or self._folder.get("")
        if folder is None:
            return ""
        files = ("memory.events", "memory.oom_control")
        if not any(_number(folder / file, "oom_kill") for file in files):
            return ""
        if (folder / files[0]).exists():
            return "box" if _number(folder / files[0], "oom") else "machine"
        # v1 does not count every time that a group met its limit.
        peak, limit = ("memory.max_usage_in_bytes", "memory.limit_in_bytes")
        is_full = _number(folder / peak, "") + _CHARGE_BYTES >= _number(folder / limit, "")
        return "box" if is_full else "machine"

    def usage(self) -> dict[str, float]:
        """Seconds of processor and the peak of memory, where the kernel counts them."""
        found = {}
        if "" in self._folder:
            found["cpu_s"] = _number(self._folder[""] / "cpu.stat", "usage_usec") / 1e6
        memory = self._folder.get("memory") or self._folder.get("")
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            if memory is not None and (bytes_max := _number(memory / file, "")):
                found["peak_memory_mib"] = bytes_max / _MIB
        return found

    def remove(self) -> bool:
        """Removes the folders; False if a process is still inside."""
        until = time.monotonic() + _REMOVE_S_MAX
        gone = [_remove(folder, until) for folder in self._folder.values()]
        return all(gone)

    def _limit(self, places: Places, limits: Limits) -> None:
        if "memory" in self._walls:
            if "memory" in places.controllers:
                self._write("", "memory.max", limits.memory_bytes)
                self._write("", "memory.swap.max", 0, is_optional=True)
                self._write("", "memory.oom.group", 1, is_optional=True)
            else:
                self._write("memory", "memory.limit_in_bytes", limits.memory_bytes)
                # Counts memory and swap together, where swap is counted at all.
                name = "memory.memsw.limit_in_bytes"
                self._write("memory", name, limits.memory_bytes, is_optional=True)
        if "pids" in self._walls:
            where = "" if "pids" in places.controllers else "pids"
            self._write(where, "pids.max", limits.processes_max)

    def _share_processor(self, places: Places, spec: Spec) -> None:
        """Keeps the box to its cores, and to its share of those that it has not to itself."""
        weight, cores = spec.limits.cpu_weight, ",".join(map(str, spec.cores))
        if "cpu" in places.controllers:
            self._write("", "cpu.weight", weight)
        elif "cpu" in self._folder:
            self._write("cpu", "cpu.shares", weight * _SHARES_OF_WEIGHT)
        if "cpuset" in places.controllers and cores:
            self._write("", "cpuset.cpus", cores)
        elif "cpuset" in self._folder:
            # In v1 both are empty in a new group, and nothing may join it then.
            above = self._folder["cpuset"].parent
            for file, value in (("cpuset.cpus", cores), ("cpuset.mems", "")):
                self._write("cpuset", file, value or (above / file).read_text().strip())

    def _write(self, where: str, file: str, value: int | str, *, is_optional: bool = False) -> None:
        if where not in self._folder:
            raise OSError(f"no control group can limit {file}")
        path = self._folder[where] / file
        if is_optional and not path.exists():
            return
        path.write_text(str(value))


def sweep(places: Places) -> None:
    """Kills and removes what owners that are no more left behind."""
    for parent in {places.unified, *places.separate.values()} - {""}:
        for folder in Path(parent).glob(f"{_prefix()}*"):
            pid, _, started = folder.name.removeprefix(_prefix()).partition("-")
            if not pid.isdecimal() or processes.started_at(int(pid)) != started:
                kill_members(folder)
                _remove(folder, time.monotonic() + _REMOVE_S_MAX)


def kill_members(folder: Path) -> None:
    """Kills all that is in one group. What v1 froze must be thawed to die."""
    for file, value in (("cgroup.kill", "1"), ("freezer.state", "THAWED")):
        if (folder / file).exists():
            with contextlib.suppress(OSError):
                (folder / file).write_text(value)
    if not (folder / "cgroup.kill").exists():
        with contextlib.suppress(OSError):
            processes.kill(map(int, (folder / "cgroup.procs").read_text().split()))


def _prefix() -> str:
    """Of the groups whose owners' pids mean something here."""
    return f"{PREFIX}{Path('/proc/self/ns/pid').stat().st_ino}-"


def _name(owner: int) -> str:
    return f"{_prefix()}{owner}-{processes.started_at(owner)}"


def _remove(folder: Path, until: float) -> bool:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            # Those that were killed leave their group a moment after their parent heard of it.
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _number(file: Path, key: str) -> int:
    """The number after a key, or alone, in a file that may not be there; then 0."""
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.rpartition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
