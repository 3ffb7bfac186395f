"""A submission that writes and opens files until it fails, and prints when."""

import errno
import json
import signal
import sys
from pathlib import Path

CHUNK = bytes(1024 * 1024)
FILES_MAX = 4096


def custom_kernel(data: object) -> object:
    """An honest submission."""
    return data


def fill(path: Path) -> str:
    """Write until it fails; return the name of the error."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError as error:
            return errno.errorcode[error.errno or 0]


def fill_many(folder: Path) -> str:
    """Fill one file after another; return the error's name, if it is not the file limit."""
    refused = ""
    for number in range(FILES_MAX):
        if (refused := fill(folder / f"{number}")) != "EFBIG":
            break
    for one in folder.glob("[0-9]*"):
        one.unlink()
    return refused


def opened() -> int:
    """Return how many files can be open."""
    files: list[object] = []
    try:
        while len(files) < FILES_MAX:
            files.append(open("/dev/null"))  # noqa: PTH123, SIM115
    except OSError:
        pass
    return len(files)


signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
found = {
    "file": fill(Path("big")),
    "file_bytes": Path("big").stat().st_size,
    "scratch": fill_many(Path()),
    "shm": fill_many(Path("/dev/shm")),
    "opened": opened(),
}
sys.stdout.write(json.dumps(found))
