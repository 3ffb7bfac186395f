"""What this machine has for runs: where control groups can be created, and how much memory.

Groups are found by creating some: v2, v1 or both.
"""

import contextlib
import errno
import functools
import os
import resource
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.sandbox import linux
from harness.sandbox.box import Limits

PREFIX = "warpboard-"
_LEAF = f"{PREFIX}home"
_PROCESSES_MAX = 10_000
_CONTROLLERS = ("memory", "pids")
# Used where available; no wall depends on them.
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

# A sandbox gets a third: the reference needs as much, and so may other processes.
SANDBOX_SHARE = 3

_MEMINFO = Path("/proc/meminfo")
_STATM = Path("/proc/self/statm")
_DATA_FIELD = 5
# The limit and the usage of a control group, in version 2 and in version 1.
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
# The file cache counts as used, but is freed when memory is needed.
_CACHE = ("active_file", "inactive_file")
_GIB = 1024**3


@dataclass(frozen=True)
class CgroupParents:
    """Parents for new groups: one of v2 with its controllers, and one of v1 per controller.

    A controller belongs to one version; the freezer of v2 needs no controller and is preferred.
    """

    unified: str = ""
    controllers: tuple[str, ...] = ()
    separate: dict[str, str] = field(default_factory=dict)

    def walls(self) -> tuple[str, ...]:
        """Return which of memory, pids and freezer can be built here."""
        available = {*self.controllers, *self.separate, *(("freezer",) if self.unified else ())}
        return tuple(wall for wall in (*_CONTROLLERS, "freezer") if wall in available)


@dataclass(frozen=True)
class _Mount:
    kind: str
    root: str
    point: str
    options: tuple[str, ...]


def find_cgroup_parents() -> CgroupParents:
    """Find usable parents. This may move processes into a leaf group, if v2 requires that."""
    mounts = _find_mounts()
    own_groups = dict(_read_own_groups())
    unified, controllers = "", tuple[str, ...]()
    for parent in _candidates(mounts, own_groups, ""):
        _enable(parent)
        with _trial(parent) as group:
            if group is None or not os.access(group / "cgroup.freeze", os.W_OK):
                continue
            files = _UNIFIED_FILES.items()
            available = tuple(name for name, file in files if (group / file).exists())
        if not unified or len(available) > len(controllers):
            unified, controllers = str(parent), available
    separate = {}
    missing = [name for name in (*_CONTROLLERS, *_CPU_CONTROLLERS) if name not in controllers]
    for controller in (*missing, *(() if unified else ("freezer",))):
        for parent in _candidates(mounts, own_groups, controller):
            with _trial(parent) as group:
                if group is not None and os.access(group / _LIMIT_FILES[controller], os.W_OK):
                    separate[controller] = str(parent)
                    break
    return CgroupParents(unified, controllers, separate)


def own_cgroups() -> Iterator[Path]:
    """Yield the groups that limit the memory of this process: its own, and each above it."""
    own_groups = dict(_read_own_groups())
    for mount in _find_mounts():
        controller = "" if mount.kind == "cgroup2" else "memory"
        if controller in ("", *mount.options) and controller in own_groups:
            top = Path(mount.point)
            relative = own_groups[controller].removeprefix(mount.root.rstrip("/")).lstrip("/")
            folder = top / relative
            yield from (path for path in (folder, *folder.parents) if path.is_relative_to(top))


@functools.cache
def _find_mounts() -> tuple[_Mount, ...]:
    """Return where control groups are mounted, which does not change."""
    mounts = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            location, _, details = line.partition(" - ")
            kind, _, options = details.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                fields = location.split()
                mounts.append(_Mount(kind, fields[3], fields[4], tuple(options.split(","))))
    return tuple(mounts)


def _read_own_groups() -> Iterator[tuple[str, str]]:
    """Yield the group of this process by controller; "" is v2."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                yield controller, path


def _candidates(
    mounts: Iterable[_Mount], own_groups: dict[str, str], controller: str
) -> Iterator[Path]:
    """Yield our own group first, so that limits on us apply to our boxes, then the top one."""
    known = set()
    for mount in mounts:
        is_v2 = mount.kind == "cgroup2"
        if is_v2 != (controller == "") or (controller and controller not in mount.options):
            continue
        path = own_groups.get(controller, "/")
        relative = path.removeprefix(mount.root.rstrip("/")).lstrip("/")
        own_folder = Path(mount.point) / relative
        if own_folder.name == _LEAF:
            own_folder = own_folder.parent
        for place in (own_folder, Path(mount.point)):
            if place not in known and place.is_dir():
                known.add(place)
                yield place


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
    """Give the children of a v2 group the controllers that it has itself, if possible."""
    try:
        available = (parent / "cgroup.controllers").read_text().split()
        enabled = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return
    for controller in (*_CONTROLLERS, *_CPU_CONTROLLERS):
        if controller in available and controller not in enabled:
            _enable_controller(parent, controller)


def _enable_controller(parent: Path, controller: str) -> None:
    switch = parent / "cgroup.subtree_control"
    try:
        switch.write_text(f"+{controller}")
    except OSError as error:
        # A v2 group may have processes, or controllers for its children, but not both.
        if error.errno == errno.EBUSY and _move_to_leaf(parent):
            with contextlib.suppress(OSError):
                switch.write_text(f"+{controller}")


def _move_to_leaf(parent: Path) -> bool:
    """Move a group's processes into a leaf, if they are only our ancestors and descendants."""
    try:
        pids = [int(pid) for pid in (parent / "cgroup.procs").read_text().split()]
        own_pids = {os.getpid(), *linux.descendants(os.getpid())}
        ancestor = os.getppid()
        while ancestor > 0 and ancestor not in own_pids:
            own_pids.add(ancestor)
            ancestor = linux.parent_of(ancestor)
        if not set(pids) <= own_pids or len(pids) > _PROCESSES_MAX:
            return False
        leaf = parent / _LEAF
        leaf.mkdir(exist_ok=True)
        for pid in pids:
            (leaf / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False
    return True


def total_bytes() -> int:
    """Return the memory of this machine, or of our control group if that is less."""
    limits = [limit for limit, _ in _limits(own_cgroups())]
    return min([_meminfo_bytes("MemTotal"), *limits])


def available_bytes(slots: int = 1) -> int:
    """Return how much of the share of a slot is free or can be freed, without swap space."""
    limits = list(_limits(own_cgroups()))
    total = min([_meminfo_bytes("MemTotal"), *(limit for limit, _ in limits)])
    free = [max(0, limit - _used_bytes(usage)) for limit, usage in limits]
    return min([_meminfo_bytes("MemAvailable"), total // slots, *free])


def sandbox_bytes_max(slots: int = 1) -> int:
    """Return the most that an author can let the submission in a slot use here."""
    return total_bytes() // slots // SANDBOX_SHARE


def sandbox_bytes(memory_bytes: int, limits: Limits, slots: int = 1) -> int:
    """Return what the submission in a slot may use here, on a device with these limits.

    `memory_bytes` is what its problem gives it, as far as the machine has it.
    """
    return max(limits.memory_bytes, min(memory_bytes, sandbox_bytes_max(slots)))


def format_gib(size: int, *, is_need: bool) -> str:
    """Format a size in GiB; needs are rounded up and offers down, so that they never look equal.

    >>> format_gib(6 * 1024**3 + 1, is_need=True), format_gib(6 * 1024**3 - 1, is_need=False)
    ('6.1 GiB', '5.9 GiB')
    """
    tenths = -(-10 * size // _GIB) if is_need else 10 * size // _GIB
    return f"{tenths / 10:.1f}".removesuffix(".0") + " GiB"


def limit_private_bytes(size: int) -> None:
    """Limit the private memory of this process; beyond it, allocations fail.

    Only for processes without a GPU, whose driver reserves far more than it uses.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def private_bytes() -> int:
    """Return the private memory that this process has allocated, written to or not."""
    pages = int(_STATM.read_text(encoding="ascii").split()[_DATA_FIELD])
    return pages * resource.getpagesize()


def private_bytes_max() -> int | None:
    """Return the limit on private memory of this process; None if there is none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if limit == resource.RLIM_INFINITY else limit


def _meminfo_bytes(name: str) -> int:
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(f"{_MEMINFO} has no line {name}")


def _limits(folders: Iterable[Path]) -> Iterator[tuple[int, Path]]:
    """Yield the limit of each group that has one, and the file with its usage."""
    for folder in folders:
        for limit_file, usage_file in _FILES:
            # A group without a limit holds `max`, or has no such file.
            with contextlib.suppress(OSError, ValueError):
                yield int((folder / limit_file).read_text()), folder / usage_file


def _used_bytes(usage: Path) -> int:
    """Return what a group uses, without the file cache; 0 if that is unknown."""
    with contextlib.suppress(OSError, ValueError):
        used = int(usage.read_text())
        # The kernel adds up these counters when they are read, which takes milliseconds.
        stat = (usage.parent / "memory.stat").read_text()
        pairs = (line.split() for line in stat.splitlines())
        return used - sum(int(value) for name, value in pairs if name in _CACHE)
    return 0
