"""The folder of one run: its problem and submission, its records, and which author code runs."""

import mmap
import os
import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.problem import Problem

_STARTED_AT = struct.Struct("=dd")
_IDLE = 0.0
_TEXT_BYTES_MAX = 1024


class AuthorActivity:
    """A page shared by run and supervisor: which part of the author's code runs, and since when."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @contextmanager
    def over(self, part: str) -> Iterator[None]:
        """Within it, this part of the author's code is running."""
        text = part.encode(errors="replace")[:_TEXT_BYTES_MAX].ljust(_TEXT_BYTES_MAX, b"\0")
        self._page[_STARTED_AT.size : _STARTED_AT.size + _TEXT_BYTES_MAX] = text
        _STARTED_AT.pack_into(self._page, 0, time.monotonic(), time.process_time())
        try:
            yield
        finally:
            _STARTED_AT.pack_into(self._page, 0, _IDLE, 0.0)

    @property
    def what(self) -> str:
        """The part that is running, or was running when the run ended; "" if none."""
        if _STARTED_AT.unpack_from(self._page, 0)[0] == _IDLE:
            return ""
        text = self._page[_STARTED_AT.size : _STARTED_AT.size + _TEXT_BYTES_MAX]
        return text.rstrip(b"\0").decode(errors="replace")

    def runs_s(self, cpu_s: float) -> tuple[float, float]:
        """Return for how long it has been running, in CPU seconds and in wall seconds.

        `cpu_s` is the CPU time of the run's process by now. Both are 0 if no author's code runs.
        """
        started_at, cpu_before_s = _STARTED_AT.unpack_from(self._page, 0)
        if started_at == _IDLE:
            return 0.0, 0.0
        return cpu_s - cpu_before_s, time.monotonic() - started_at


@dataclass(frozen=True)
class RunDirectory:
    """What a run finds prepared: its folders, its problem, a descriptor of its records folder.

    `mark` shows the supervisor which part of the author's code is running. `submission` is visible
    to the worker; `scratch` holds the workers' own folders where no mount namespace gives them one.
    In a duel, `rival` is the directory of the second submission.
    """

    folder: Path
    problem: Problem
    submission: Path
    scratch: Path
    out: int
    mark: AuthorActivity
    rival: "RunDirectory | None" = None

    def keep(self, name: str, data: bytes) -> None:
        """Write one of the run's records, even if the folder's path is out of reach by now."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=self.out), "wb") as file:
            file.write(data)

    def leave(self) -> None:
        """Remove the folder."""
        os.close(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)
