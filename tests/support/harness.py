"""Runs of small submissions against a small problem, by the public entry."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.entry import Harness, Progress, RunReport, RunRequest, StageFinished, Started
from harness.sandbox.linux import descendants, parent_of

HONEST = "def custom_kernel(data):\n    data[1].copy_(data[0])\n    return data[1]\n"
REFERENCE = (Path(__file__).parents[1] / "harness" / "problem" / "reference.py").read_text()

# A ranked run measures for as long as its budget allows. Few calls are enough for small kernels.
BUDGETS_S = {"ranked": 4.0}

Message = Started | Progress | StageFinished


class Warm:
    """One harness for all tests that ask nothing special of theirs, and the loop it lives in."""

    def __init__(self, **options: Any) -> None:
        self.runner = asyncio.Runner()
        self.harness = Harness(**options)

    def evaluate(self, request: RunRequest, told: Callable[[Message], Any]) -> RunReport:
        """A run in the warm harness."""
        return self.runner.run(self.harness.evaluate(request, told))

    def close(self) -> None:
        """Ends the harness."""
        self.runner.run(self.harness.close())
        self.runner.close()


def children() -> set[int]:
    """Return the processes that this one has started, for earlier tests too."""
    return {pid for pid in descendants(os.getpid()) if parent_of(pid) == os.getpid()}


@dataclass
class Host:
    """A folder with a problem, from which submissions are run one after the other."""

    folder: Path
    warm: Warm
    budgets_s: dict[str, float] = field(default_factory=BUDGETS_S.copy)
    ranking_by: str = "geom"
    files: dict[str, str] = field(default_factory=lambda: {"reference.py": REFERENCE})
    floor_us: float = 0.0
    more: dict[str, int] = field(default_factory=dict)
    told_besides: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=children)

    @property
    def out(self) -> Path:
        """Where the records of the run are."""
        return self.folder / "out"

    def request(
        self, source: str | bytes, mode: str = "test", suffix: str = ".txt", **more: Any
    ) -> RunRequest:
        """A request to run this source, from a file with this suffix."""
        self.write()
        self.out.mkdir(exist_ok=True)
        path = self.folder / f"submission{suffix}"
        path.write_bytes(source.encode() if isinstance(source, str) else source)
        return RunRequest(str(self.folder / "problem"), str(path), mode, str(self.out), **more)

    def run(self, source: str | bytes, mode: str = "test", **more: Any) -> RunReport:
        """The report on this source."""
        return self.warm.evaluate(self.request(source, mode, **more), self.told)

    async def told(self, message: Message) -> None:
        """Keeps a message, and every process that a run has started by then."""
        self.messages.append(message)
        self.seen.update(descendants(os.getpid(), self.others))

    def living(self) -> list[int]:
        """Those of the processes seen that still run."""
        return [pid for pid in self.seen if Path(f"/proc/{pid}").exists()]

    def write(self) -> None:
        """The problem's files, and a manifest that fits them."""
        problem = self.folder / "problem"
        problem.mkdir(exist_ok=True)
        for name, text in self.files.items():
            (problem / name).write_text(text)
        (problem / "manifest.json").write_text(json.dumps(self._manifest()))

    def _manifest(self) -> dict[str, Any]:
        return {
            "slug": "identity",
            "lang": "py",
            "files": {name: _digest(text) for name, text in self.files.items()},
            "submission": "submission.py",
            "tests": [self._case(4, 7), self._case(8, 7)],
            "benchmarks": [self._case(16, 3), self._case(32, 3)],
            "ranking_by": self.ranking_by,
            "budgets_s": self.budgets_s,
        } | self.told_besides

    def _case(self, size: int, seed: int) -> dict[str, Any]:
        args = {"size": size, "seed": seed} | self.more
        return {"name": f"size={size} seed={seed}", "args": args, "floor_us": self.floor_us}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
