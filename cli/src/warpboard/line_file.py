"""Files of JSON lines that a long command appends to, and goes on with after a kill."""

import fcntl
import os
from pathlib import Path
from typing import Generic, Self, TypeVar

import msgspec

from shared.errors import Refused

Line = TypeVar("Line", bound=msgspec.Struct)


class LineFile(Generic[Line]):
    """A file of lines of one type, each written at once and whole; one process at a time.

    A line that a kill cut off is removed. Use it as a context manager.
    """

    def __init__(self, path: Path, type_: type[Line]) -> None:
        self.path = path
        self._fd = -1
        self._decoder = msgspec.json.Decoder(type_)

    def __enter__(self) -> Self:
        """Read what the file has. Raises Refused."""
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError as error:
            self.__exit__()
            raise Refused("busy", f"another process writes to {self.path}") from error
        except OSError as error:
            self.__exit__()
            reason = f"--out: {self.path} cannot be written: {error.strerror}"
            raise Refused("unwritable", reason, "--out") from error
        except Refused:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def append(self, line: Line) -> None:
        """Add a line. Raises Refused if the disk is full."""
        data = memoryview(msgspec.json.encode(line) + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror}; the next call goes on"
            raise Refused("unwritable", reason) from error
        self.keep(line, 0)

    def keep(self, line: Line, number: int, /) -> None:
        """Keep a line; `number` is its place in the file, 0 if it is new. Raises Refused."""
        raise NotImplementedError

    def _read(self) -> None:
        end = 0
        with self.path.open("rb") as file:
            for number, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    break
                if data.strip():
                    self.keep(self._parse(number, data), number)
                end += len(data)
        os.ftruncate(self._fd, end)

    def _parse(self, number: int, data: bytes) -> Line:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = f"{error}: choose another file, or remove the line"
            raise bad_line(self.path, number, "", reason) from error


def bad_line(path: Path, number: int, field: str, problem: str) -> Refused:
    """Return the refusal of a line of a file; `field` is "" if it is about the whole line."""
    name = f", field {field}" if field else ""
    return Refused("bad_line", f"{path}, line {number}{name}: {problem}", field or None)
