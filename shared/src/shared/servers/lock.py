"""The lock of a folder that one process at a time, with its children, may use."""

import fcntl
import os
import time
from collections.abc import Generator
from pathlib import Path

from shared.errors import Refused

FILE = "lock"
PATIENCE_S = 10.0


class InUse(Refused):
    """A folder that another process, perhaps an orphan that is still ending, holds."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__("in_use", f"{folder} is in use by {who}")
        self.folder = folder
        self.pid = pid


def hold(folder: Path) -> int:
    """Lock a folder, made if need be, and return the descriptor that holds the lock.

    A child that inherits the descriptor keeps the lock for as long as it lives, even when we
    are killed: nats-server takes no lock itself, and two on one store destroy it.
    Errors: InUse.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InUse(folder, holder(folder)) from None
    return lock


def holding(folder: Path, patience_s: float) -> Generator[None, None, int]:
    """Lock a folder as `hold` does, waiting while its last user may still be ending.

    Yields whenever there is nothing to do but wait; returns the descriptor.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            return hold(folder)
        except InUse:
            if time.monotonic() > until:
                raise
        yield


def sign(lock: int, pid: int) -> None:
    """Write into a lock that we hold which process uses the folder."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{pid}\n".encode(), 0)


def is_held(folder: Path) -> bool:
    """Whether some process uses the folder at this moment."""
    try:
        lock = os.open(folder / FILE, os.O_RDWR | os.O_CLOEXEC)
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
    """The process that signed the lock, if it has the lock open still.

    The number alone would not do: after a crash it may be any other process's.
    """
    file = folder / FILE
    try:
        pid = int(file.read_text())
        os.kill(pid, 0)
        opened = list(Path(f"/proc/{pid}/fd").iterdir()) if Path("/proc/self").exists() else [file]
    except (FileNotFoundError, PermissionError, ProcessLookupError, ValueError):
        return None
    return pid if any(_is_same(one, file) for one in opened) else None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
