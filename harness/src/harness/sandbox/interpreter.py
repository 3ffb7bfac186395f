"""Where the running interpreter lies: what a worker must be able to read to import anything."""

import functools
import os
import sys
import sysconfig
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


@functools.cache
def folders() -> tuple[str, ...]:
    """Every folder that the running interpreter may import from, but our own editable source."""
    found = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")}
    found |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    found |= {os.path.realpath(path) for path in found}
    return tuple(sorted(path for path in found if Path(path).is_dir() and path != "/"))


def package() -> str:
    """The harness's own folder, which no worker has any business with."""
    return str(_PACKAGE)


def guest_files() -> list[str]:
    """Of the harness, what a worker started by exec imports: the guest, and nothing else."""
    return [f"{_PACKAGE}/__init__.py", f"{_PACKAGE}/worker"]


def outermost(paths: list[str]) -> list[str]:
    """Those of the paths that lie below no other, shortest first.

    >>> outermost(["/usr/lib", "/usr", "/usrx"])
    ['/usr', '/usrx']
    """
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda one: (len(one), one)):
        if not any(is_below(path, other) for other in kept):
            kept.append(path)
    return kept


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it.

    >>> is_below("/usr/lib", "/usr"), is_below("/usrx", "/usr")
    (True, False)
    """
    return path == folder or path.startswith(f"{folder}/")


def around(folder: str, hidden: str) -> list[str]:
    """All that lies in a folder but what is hidden deep inside it, as few paths as can be."""
    found: list[str] = []
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if not is_below(hidden, entry.path):
            found.append(entry.path)
        elif entry.path != hidden:
            found += around(entry.path, hidden)
    return found
