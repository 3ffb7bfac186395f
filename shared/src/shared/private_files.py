"""Files and folders that only their owner can read, whatever the umask is."""

import os
from pathlib import Path
from typing import BinaryIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_GROUP_AND_OTHERS = 0o077


def open_private(path: Path) -> BinaryIO:
    """Open a new file of mode 0600 to write. One that exists is removed first, not reused.

    Whoever has the old one open, or may read it, sees nothing of the new one. Errors: OSError.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb")


def create_private_folder(folder: Path) -> None:
    """Create a folder of mode 0700, and its missing parents; an existing one stays as it is.

    Errors: OSError.
    """
    if folder.exists():
        return
    create_private_folder(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def close_empty_folder(folder: Path) -> None:
    """Give an empty folder of our own the mode 0700: it has no other use yet. Errors: OSError."""
    is_own = folder.stat().st_uid == os.geteuid()
    if is_own and not any(folder.iterdir()):
        folder.chmod(FOLDER_MODE)


def is_open_to_others(folder: Path) -> bool:
    """Return whether other users can list a folder or enter it. Errors: OSError."""
    return bool(folder.stat().st_mode & _GROUP_AND_OTHERS)
