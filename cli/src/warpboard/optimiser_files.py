"""The trace of `warpboard optimise`: a line of JSON for each evaluation, to go on and to learn."""

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec

from harness.evaluations import UNREWARDED_GRADES
from harness.vocabulary import PASSED
from shared.errors import Refused

Stage = Literal["test", "screen", "benchmark", "confirm"]
Origin = Literal["start", "retrieved", "search", "evolution", "model"]
TRACE, BEST = "trace.jsonl", "best"


class Message(msgspec.Struct, frozen=True):
    """A message of a conversation with a model."""

    role: str
    content: str


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation of a kernel: who proposed it, why, and how it ended.

    The fields are described in docs/optimiser.md.
    """

    candidate: int
    round: int
    stage: Stage
    origin: Origin
    parents: Sequence[int] = ()
    submission: int = 0
    name: str
    source: str
    values: Mapping[str, str] = {}
    prompt: Sequence[Message] = ()
    completion: str = ""
    model: str = ""
    tokens: int = 0
    verdict: str
    reason: str = ""
    failure_code: str = ""
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    speedup_over: str = ""
    time_us: float | None = None
    grade: str = ""
    reward: float | None = None
    problem: str
    problem_digest: str
    harness_code: str = ""
    device: str = ""
    level: str = ""
    tier: str = ""
    took_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def has_passed(self) -> bool:
        """Whether every check passed."""
        return self.verdict == PASSED

    @property
    def estimate(self) -> float | None:
        """The lower bound of the speed-up, also of a noisy time; None without a time."""
        return self.interval[0] if self.has_passed and self.interval else None

    @property
    def low(self) -> float | None:
        """The lower bound of the speed-up; None without a time that counts."""
        return self.estimate if self.grade not in UNREWARDED_GRADES else None


class TraceFile:
    """The trace in a folder, with everything that it has so far; one process at a time writes it.

    A line that a kill cut off is removed. Use it as a context manager.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / TRACE
        self.lines: list[TraceLine] = []
        self._fd = -1

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
            raise Refused("unwritable", reason) from error
        except Refused:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def append(self, line: TraceLine) -> None:
        """Add a line. Raises Refused if the disk is full."""
        data = memoryview(msgspec.json.encode(line) + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror}; the next call goes on"
            raise Refused("unwritable", reason) from error
        self.lines.append(line)

    def check_run(self, problem: str, problem_digest: str, start: str) -> None:
        """Refuse to go on with another problem or start. Raises Refused."""
        if not self.lines:
            return
        first = self.lines[0]
        fix = "choose another folder, or move this one away"
        if (first.problem, first.problem_digest) != (problem, problem_digest):
            reason = f"{self.path} is about the problem {first.problem}, or another version"
            raise Refused("other_run", f"--out: {reason}: {fix}", "--out")
        if first.source != start:
            reason = f"{self.path} began with another START, {first.name}"
            raise Refused("other_run", f"--out: {reason}: {fix}", "--out")

    def _read(self) -> None:
        end = 0
        with self.path.open("rb") as file:
            for number, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    break
                try:
                    self.lines.append(_decoder.decode(data))
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    reason = f"{self.path}, line {number}: {error}: choose another --out"
                    raise Refused("bad_line", reason, "--out") from error
                end += len(data)
        os.ftruncate(self._fd, end)


_decoder = msgspec.json.Decoder(TraceLine)
