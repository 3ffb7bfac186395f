"""The trace of `warpboard optimise`: a line of JSON for each evaluation, to go on and to learn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from harness.evaluations import UNREWARDED_GRADES
from harness.vocabulary import PASSED
from shared.errors import Refused
from warpboard.line_file import LineFile

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


class TraceFile(LineFile[TraceLine]):
    """The trace in a folder, with all of its lines."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / TRACE, TraceLine)
        self.lines: list[TraceLine] = []

    def keep(self, line: TraceLine, _: int, /) -> None:
        """Keep a line."""
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
