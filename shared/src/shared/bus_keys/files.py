"""Files of keys, which only their owner can read."""

import os
from pathlib import Path

from shared.private_files import FILE_MODE, create_private_folder


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; its folder is made if it is missing.

    An existing file is written over and keeps its inode: a container that has mounted it sees the
    new contents. Who reads it meanwhile may see a part. Errors: OSError.
    """
    create_private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
