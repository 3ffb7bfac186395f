"""Makes the interpreter readable for every user, in its own mount namespace."""

import sys
from pathlib import Path

from harness.sandbox import linux

_HOOK = "/mnt"


def open_the_way() -> None:
    """Mount readable folders over the closed ones above the interpreter, with it inside."""
    prefix = Path(sys.base_prefix).resolve()
    closed = [place for place in prefix.parents if place.stat().st_mode & 0o005 != 0o005]
    if not closed:
        return
    linux.unshare(linux.CLONE_NEWNS, "mount")
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount(str(prefix), _HOOK, flags=linux.MS_BIND | linux.MS_REC)
    linux.mount("tmpfs", str(closed[-1]), "tmpfs", options="mode=0755")
    prefix.mkdir(parents=True)
    linux.mount(_HOOK, str(prefix), flags=linux.MS_BIND | linux.MS_REC)
