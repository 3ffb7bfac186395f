"""How much memory this machine has for runs, within the limits of the groups that we are in."""

import contextlib
import resource
from collections.abc import Iterable
from pathlib import Path

from harness.sandbox import cgroup_places

# A sandbox has a third: the reference needs as much again, and so may others on the machine.
SANDBOX_SHARE = 3

_MEMINFO = Path("/proc/meminfo")
_STATM = Path("/proc/self/statm")
_DATA = 5
# The limit of a control group and what is used of it, in version 2 and in version 1.
_FILES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
# Of what a group uses, the cache of files is given back when somebody needs it.
_CACHE = ("active_file", "inactive_file")
_GIB = 1024**3


def total_bytes() -> int:
    """The memory of this machine, or of the control group that we are in if that is less."""
    limits = [limit for limit, _ in _groups(cgroup_places.own_folders())]
    return min([_meminfo("MemTotal"), *limits])


def available_bytes() -> int:
    """What of it is free or can be freed, without the swap space."""
    free = [max(0, limit - used) for limit, used in _groups(cgroup_places.own_folders())]
    return min([_meminfo("MemAvailable"), *free])


def sandbox_bytes_max() -> int:
    """The most that an author can have submissions use here."""
    return total_bytes() // SANDBOX_SHARE


def gib_text(size: int, *, is_need: bool) -> str:
    """A size in GiB: a need is rounded up and an offer down, so that they never look the same.

    >>> gib_text(6 * 1024**3 + 1, is_need=True), gib_text(6 * 1024**3 - 1, is_need=False)
    ('6.1 GiB', '5.9 GiB')
    """
    tenths = -(-10 * size // _GIB) if is_need else 10 * size // _GIB
    return f"{tenths / 10:.1f}".removesuffix(".0") + " GiB"


def limit_private_bytes(size: int) -> None:
    """Let this process have so much private memory; beyond it an allocation fails.

    A GPU's driver reserves far more than it uses: this is for processes without one.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def private_bytes() -> int:
    """The private memory that this process has allocated, whether it was written to or not."""
    pages = int(_STATM.read_text(encoding="ascii").split()[_DATA])
    return pages * resource.getpagesize()


def private_bytes_max() -> int | None:
    """How much of it this process may have; None for no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if limit == resource.RLIM_INFINITY else limit


def _meminfo(name: str) -> int:
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(f"{_MEMINFO} has no line {name}")


def _groups(folders: Iterable[Path]) -> list[tuple[int, int]]:
    """Of each group that has a limit: the limit and what is used, cache left out."""
    found = []
    for folder in folders:
        for limit_file, used_file in _FILES:
            # A group without a limit says `max`, or has no such file.
            with contextlib.suppress(OSError, ValueError):
                limit = int((folder / limit_file).read_text())
                found.append((limit, int((folder / used_file).read_text()) - _cache(folder)))
    return found


def _cache(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        pairs = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        return sum(int(value) for name, value in pairs if name in _CACHE)
    return 0
