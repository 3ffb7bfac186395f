"""Cheats, read from their files and run by the very entry that the agents use."""

import asyncio
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from harness.entry import Progress, RunReport, RunRequest, StageFinished, Started, evaluate
from harness.sandbox.processes import descendants

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"


@dataclass(frozen=True)
class Cheat:
    """A submission and what its header asks for: `# word: value` in its first lines."""

    path: Path
    header: dict[str, str]

    @property
    def budgets_s(self) -> dict[str, float]:
        """What the header says of budgets, `stage=seconds` each."""
        pairs = (item.split("=") for item in self.header.get("budgets", "").split())
        return {stage: float(seconds) for stage, seconds in pairs}


@dataclass(frozen=True)
class Ended:
    """How a cheat ended: its report and records, and the processes seen on the way."""

    report: RunReport
    log: str
    samples_us: list[float]
    seen: set[int]

    @property
    def times_us(self) -> list[float]:
        """The estimates of the timed cases."""
        return [case.time_us for case in self.report.cases if case.time_us is not None]


def cheat(path: Path) -> Cheat:
    """The cheat in a file."""
    lines = path.read_text().splitlines()
    words = (line[2:].partition(": ") for line in lines if line.startswith("# "))
    return Cheat(path, {word: value for word, colon, value in words if colon})


def run(one: Cheat, folder: Path) -> Ended:
    """A whole run of a cheat; `folder` is an empty one for its problem and its records."""
    problem, out = folder / "problem", folder / "out"
    problem.mkdir()
    out.mkdir()
    _write_problem(problem, one.budgets_s)
    mode = one.header.get("mode", "test")
    request = RunRequest(str(problem), str(one.path), mode, str(out))
    seen: set[int] = set()

    async def told(_: Started | Progress | StageFinished) -> None:
        seen.update(descendants(os.getpid()))

    report = asyncio.run(evaluate(request, told))
    cases = json.loads((out / "samples.json").read_text())["samples"].values()
    samples = [sample for case in cases for sample in case]
    return Ended(report, (out / "log.txt").read_text(), samples, seen)


def _write_problem(folder: Path, budgets_s: dict[str, float]) -> None:
    files = {}
    for path in (HERE / "problem").glob("*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = {
        "slug": "triangles",
        "lang": "py",
        "files": files,
        "submission": "submission.py",
        "tests": [_case(32), _case(64)],
        "benchmarks": [_case(256)],
        "ranking_by": "geom",
        "budgets_s": budgets_s,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _case(size: int) -> dict[str, object]:
    return {"name": f"size={size} seed=7", "args": {"size": size, "seed": 7}}
