"""A submission that writes and opens files until it is refused, and prints where that was."""

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
    """Writes until it is refused; the name of the refusal."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError as error:
            return errno.errorcode[error.errno or 0]


def fill_many(folder: Path) -> str:
    """Fills one file after another; the name of the refusal, if it is not the limit of a file."""
    refused = ""
    for number in range(FILES_MAX):
        if (refused := fill(folder / f"{number}")) != "EFBIG":
            break
    for one in folder.glob("[0-9]*"):
        one.unlink()
    return refused


def opened() -> int:
    """How many files can be open."""
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
