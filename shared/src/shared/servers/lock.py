"""The lock of a folder that one process at a time, with its children, may use."""

import fcntl
import os
import time
from collections.abc import Generator
from pathlib import Path

from shared.errors import Refused

LOCK_FILE = "lock"
PATIENCE_S = 10.0


class FolderInUse(Refused):
    """A folder that another process holds, perhaps an orphan that is still exiting."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        user = "another process" if pid is None else f"process {pid}"
        super().__init__("in_use", f"{folder} is in use by {user}")
        self.folder = folder
        self.pid = pid


def lock_folder(folder: Path) -> int:
    """Lock a folder, creating it if needed, and return the descriptor that holds the lock.

    A child that inherits the descriptor keeps the lock for as long as it lives, even when we
    are killed: nats-server takes no lock itself, and two on one store destroy it.
    Errors: FolderInUse.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FolderInUse(folder, holder(folder)) from None
    return lock


def lock_folder_steps(folder: Path, patience_s: float) -> Generator[None, None, int]:
    """Lock a folder as `lock_folder` does, waiting while its last user may still be exiting.

    Yields while it waits; returns the descriptor.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            return lock_folder(folder)
        except FolderInUse:
            if time.monotonic() > until:
                raise
        yield


def write_holder(lock: int, pid: int) -> None:
    """Write into a lock that we hold which process uses the folder."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{pid}\n".encode(), 0)


def is_held(folder: Path) -> bool:
    """Return whether some process uses the folder now."""
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def holder(folder: Path) -> int | None:
    """Return the process that signed the lock, if it still has the lock open.

    The process id alone is not enough: after a crash it may belong to any other process.
    """
    file = folder / LOCK_FILE
    try:
        pid = int(file.read_text())
        os.kill(pid, 0)
        open_files = (
            list(Path(f"/proc/{pid}/fd").iterdir()) if Path("/proc/self").exists() else [file]
        )
    except (FileNotFoundError, PermissionError, ProcessLookupError, ValueError):
        return None
    return pid if any(_is_same_file(path, file) for path in open_files) else None


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False
