"""What a run gives up before it meets the author's code: root, the network, other processes."""

import os
import sys
from pathlib import Path

from harness.sandbox import linux, seccomp
from harness.supervisor.home import RUN_UID


def give_up() -> None:
    """Irrevocable for this process. Where it is root it becomes an account that owns nothing.

    Such an account may still be unable to import: an interpreter below a closed home is read with
    one capability kept, to read files, which is given up wherever it is not needed.
    """
    if os.getuid() == 0:
        linux.become(RUN_UID, keep_reading=not _is_reachable(Path(sys.prefix)))
    linux.become_unreadable()
    seccomp.install()


def _is_reachable(folder: Path) -> bool:
    """Whether everybody may pass to a folder and read it."""
    places = (folder.resolve(), *folder.resolve().parents)
    return all(place.stat().st_mode & 0o005 == 0o005 for place in places)
