"""Where this process may make control groups, found by making them: v2, v1 or both."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.sandbox import processes

PREFIX = "warpboard-"
_HOME = f"{PREFIX}home"
_PROCESSES_MAX = 10_000
_CONTROLLERS = ("memory", "pids")
# Used where they are there; no wall depends on them.
_CPU_CONTROLLERS = ("cpu", "cpuset")
_LIMIT_FILES = {
    "memory": "memory.limit_in_bytes",
    "pids": "pids.max",
    "freezer": "freezer.state",
    "cpu": "cpu.shares",
    "cpuset": "cpuset.cpus",
}
_UNIFIED_FILES = {
    "memory": "memory.max",
    "pids": "pids.max",
    "cpu": "cpu.weight",
    "cpuset": "cpuset.cpus",
}


@dataclass(frozen=True)
class Places:
    """Parents under which groups can be made: of v2 one with its controllers, of v1 one for each.

    A controller belongs to one of the two; the freezer of v2 needs no controller and goes first.
    """

    unified: str = ""
    controllers: tuple[str, ...] = ()
    separate: dict[str, str] = field(default_factory=dict)

    def walls(self) -> tuple[str, ...]:
        """Of memory, pids and freezer, those that can be built here."""
        has = {*self.controllers, *self.separate, *(("freezer",) if self.unified else ())}
        return tuple(wall for wall in (*_CONTROLLERS, "freezer") if wall in has)


@dataclass(frozen=True)
class _Mount:
    kind: str
    root: str
    point: str
    options: tuple[str, ...]


def find() -> Places:
    """What this process may really use. It steps aside into a group of its own if v2 asks that."""
    mounts = list(_mounts())
    own = dict(_own_groups())
    unified, controllers = "", tuple[str, ...]()
    for parent in _candidates(mounts, own, ""):
        found = _try_unified(parent)
        if found is not None and (not unified or len(found) > len(controllers)):
            unified, controllers = str(parent), found
    separate = {}
    wanted = [one for one in (*_CONTROLLERS, *_CPU_CONTROLLERS) if one not in controllers]
    for controller in (*wanted, *(() if unified else ("freezer",))):
        for parent in _candidates(mounts, own, controller):
            if _try_separate(parent, _LIMIT_FILES[controller]):
                separate[controller] = str(parent)
                break
    return Places(unified, controllers, separate)


def own_folders() -> Iterator[Path]:
    """The groups that limit the memory of this process: its own, and each above it."""
    own = dict(_own_groups())
    for mount in _mounts():
        controller = "" if mount.kind == "cgroup2" else "memory"
        if controller in ("", *mount.options) and controller in own:
            top = Path(mount.point)
            below = own[controller].removeprefix(mount.root.rstrip("/")).lstrip("/")
            folder = top / below
            yield from (one for one in (folder, *folder.parents) if one.is_relative_to(top))


def _mounts() -> Iterator[_Mount]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            where, _, what = line.partition(" - ")
            kind, _, options = what.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                fields = where.split()
                yield _Mount(kind, fields[3], fields[4], tuple(options.split(",")))


def _own_groups() -> Iterator[tuple[str, str]]:
    """By controller, "" being v2: the group that this process is in."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                yield controller, path


def _candidates(mounts: list[_Mount], own: dict[str, str], controller: str) -> Iterator[Path]:
    """Our own group first, so that limits set on us hold for our boxes; then the topmost one."""
    seen = set()
    for mount in mounts:
        is_v2 = mount.kind == "cgroup2"
        if is_v2 != (controller == "") or (controller and controller not in mount.options):
            continue
        path = own.get(controller, "/")
        below = path.removeprefix(mount.root.rstrip("/")).lstrip("/")
        ours = Path(mount.point) / below
        if ours.name == _HOME:
            ours = ours.parent
        for place in (ours, Path(mount.point)):
            if place not in seen and place.is_dir():
                seen.add(place)
                yield place


def _try_unified(parent: Path) -> tuple[str, ...] | None:
    """The controllers that a new group in a v2 parent has; None if none can be made there."""
    _enable(parent)
    with _trial(parent) as group:
        if group is None or not os.access(group / "cgroup.freeze", os.W_OK):
            return None
        return tuple(name for name, file in _UNIFIED_FILES.items() if (group / file).exists())


def _try_separate(parent: Path, file: str) -> bool:
    with _trial(parent) as group:
        return group is not None and os.access(group / file, os.W_OK)


@contextlib.contextmanager
def _trial(parent: Path) -> Iterator[Path | None]:
    group = parent / f"{PREFIX}trial-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def _enable(parent: Path) -> None:
    """Gives the children of a v2 group those controllers that it has itself, if it can."""
    try:
        has = (parent / "cgroup.controllers").read_text().split()
        given = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return
    for controller in (*_CONTROLLERS, *_CPU_CONTROLLERS):
        if controller in has and controller not in given:
            _enable_one(parent, controller)


def _enable_one(parent: Path, controller: str) -> None:
    switch = parent / "cgroup.subtree_control"
    try:
        switch.write_text(f"+{controller}")
    except OSError as error:
        # A v2 group may have processes or controllers for its children, not both.
        if error.errno == errno.EBUSY and _step_aside(parent):
            with contextlib.suppress(OSError):
                switch.write_text(f"+{controller}")


def _step_aside(parent: Path) -> bool:
    """Moves a group's processes into a leaf, if none but our own line of processes is in it."""
    try:
        pids = [int(pid) for pid in (parent / "cgroup.procs").read_text().split()]
        if not set(pids) <= _line() or len(pids) > _PROCESSES_MAX:
            return False
        leaf = parent / _HOME
        leaf.mkdir(exist_ok=True)
        for pid in pids:
            (leaf / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False
    return True


def _line() -> set[int]:
    """This process, all it descends from and all that descends from it."""
    line = {os.getpid(), *processes.descendants(os.getpid())}
    above = os.getppid()
    while above > 0 and above not in line:
        line.add(above)
        above = processes.parent_of(above)
    return line
