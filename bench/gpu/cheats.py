"""`python -m bench.gpu.cheats`: the corpus of cheats on a GPU, by the entry that the agents use.

The cheats of the processor run here too where their header says `# gpu: yes`; `--all` runs every
one, for a box is a box. A control that fails comes first: then nothing below it counts.

A run takes 8 s or more, mostly for two contexts. So no call is recorded, which would take a third
one and decides no verdict. And some cheats run beside each other: those that are not timed and have
one way to end, for what disturbs them can only be counted against them.
"""

import argparse
import asyncio
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.gpu.table import write_document
from harness.entry import Harness, Progress, RunReport, RunRequest, StageFinished, Started
from tests.cheats.corpus import SUBMISSIONS, Cheat, cheat
from tests.cheats.outcomes import faults, time_faults
from tests.cheats.trials import Ended, alone_us, read_means_us, read_samples_us

PROBLEM = Path(__file__).parent / "problem"
# A cheat is not begun with less: its run would be cut short.
LEFT_S_MIN = 15.0
CHECKED_SIZES = (64, 128)
TIMED_SIZE = 1024
# A run keeps about two cores busy while its contexts open.
BESIDE_MAX = max(1, min(6, (os.cpu_count() or 1) // 2))
OPTIONS = {"records_calls": False}


@dataclass
class Trial:
    """A call of this program: its options, and the rows so far, earlier ones included."""

    options: argparse.Namespace
    folder: Path
    until: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    alone_us: float = 0.0

    async def run(self, cheats: Sequence[Cheat]) -> None:
        """Run the first cheat, which the others are compared with, then all others."""
        first, beside = cheats[:1], [one for one in cheats[1:] if may_run_beside(one)]
        others = [one for one in cheats[1:] if not may_run_beside(one)]
        async with AsyncExitStack() as stack:
            count = max(1, min(BESIDE_MAX, len(beside)))
            harnesses = [await stack.enter_async_context(Harness(**OPTIONS)) for _ in range(count)]
            await self._run_in_turn(harnesses[0], first)
            async with asyncio.TaskGroup() as group:
                for number, harness in enumerate(harnesses):
                    group.create_task(self._run_in_turn(harness, beside[number::count]))
            await self._run_in_turn(harnesses[0], others)

    async def _run_in_turn(self, harness: Harness, cheats: Sequence[Cheat]) -> None:
        for number, one in enumerate(cheats):
            if time.monotonic() > self.until - LEFT_S_MIN:
                print(f"{len(cheats) - number} cheats are left for a later call: no time")
                return
            await self._try(harness, one)

    async def _try(self, harness: Harness, one: Cheat) -> None:
        began = time.monotonic()
        ended = []
        for run in range(int(one.number("runs", 1))):
            request = _request(one, self.folder / f"{one.name}-{run}", self.options)
            ended.append(await _run(harness, request))
        if one.name == "gpu_honest" and ended[-1].report.verdict == "passed":
            self.alone_us = alone_us(ended)
        took_s = round(time.monotonic() - began, 1)
        row = _row(one, ended, _said(one, ended, self.alone_us)) | {"took_s": took_s}
        self.rows.append(row | ({"alone_us": self.alone_us} if one.name == "gpu_honest" else {}))
        _print(self.rows[-1])
        write_document(self.rows, self.options.out)


def main() -> None:
    """Runs what was asked for, and says of each whether its header's promise held."""
    options = _options()
    until = time.monotonic() + options.seconds
    rows = _earlier_rows(options.out) if options.resume else []
    known = {row["name"] for row in rows}
    chosen = [one for one in _corpus(is_all=options.all) if _is_named(one, options.only)]
    chosen = [one for one in chosen if one.name not in known]
    alone = max((row.get("alone_us", 0.0) for row in rows), default=0.0)
    with tempfile.TemporaryDirectory(prefix="cheats-") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(Trial(options, Path(folder), until, rows, alone).run(chosen))
    failed = [row["name"] for row in rows if row["faults"]]
    print(f"{len(rows)} cheats, not as promised: {' '.join(failed) or 'none'}; {options.out}")
    raise SystemExit(bool(failed))


def may_run_beside(one: Cheat) -> bool:
    """Return whether a cheat may share the GPU with other runs, which no fault of it may end.

    It ends in one way, so another run can only make it end otherwise, which is a fault.
    """
    is_plain = one.mode in ("test", "verify") and one.number("runs", 1) == 1
    return is_plain and one.verdicts in (["wrong_answer"], ["passed"])


async def _run(harness: Harness, request: RunRequest) -> Ended:
    level = tier = ""

    async def told(message: Started | Progress | StageFinished) -> None:
        nonlocal level, tier
        if isinstance(message, Started):
            level, tier = message.level, message.tier

    report = await harness.evaluate(request, told)
    out = Path(request.out)
    log = out / "log.txt"
    text = log.read_text() if log.exists() else ""
    samples = out / "samples.json.gz"
    times_us, means_us = list(read_samples_us(samples)), list(read_means_us(samples))
    return Ended(report, level, tier, text, times_us, means_us=means_us)


def _request(one: Cheat, folder: Path, options: argparse.Namespace) -> RunRequest:
    problem, out = folder / "problem", folder / "out"
    for new in (problem, out):
        new.mkdir(parents=True)
    _write_problem(problem, one)
    return RunRequest(str(problem), str(one.path), one.mode, str(out), options.device, one.key)


def _said(one: Cheat, ended: list[Ended], alone: float) -> list[str]:
    """What is not as promised; a failure that the header names is as promised."""
    allowed = one.header.get("fails", "").split()
    counted = [one for one in ended if one.report.failure_code not in allowed or not allowed]
    return faults(one, counted) + time_faults(one, counted, alone)


def _row(one: Cheat, ended: list[Ended], said: list[str]) -> dict[str, Any]:
    report: RunReport = ended[-1].report
    times = ended[-1].times_us
    return {
        "name": one.name,
        "id": one.header["id"],
        "expect": one.header["expect"],
        "level": ended[-1].level,
        "tier": ended[-1].tier,
        "verdict": report.verdict,
        "failure_code": report.failure_code,
        "reason": report.reason,
        "is_recorded": report.composition is not None,
        "times_us": times,
        "faults": said,
        "log": ended[-1].log[-2000:],
    }


def _print(row: dict[str, Any]) -> None:
    verdict = row["verdict"] or row["failure_code"]
    said = "; ".join(row["faults"]) or "as promised"
    took = f"{row['tier']} {row['took_s']:>5} s"
    print(f"{row['id']:<24} | {row['expect']:<44} | {verdict:<12} | {took} | {said}", flush=True)


def _corpus(*, is_all: bool) -> list[Cheat]:
    every = [cheat(path) for path in SUBMISSIONS.glob("*.py")]
    some = [one for one in every if is_all or one.header.get("gpu") == "yes"]
    return sorted(some, key=lambda one: (one.name != "gpu_honest", one.id != "control", one.id))


def _earlier_rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _is_named(one: Cheat, names: list[str]) -> bool:
    return not names or one.name in names or one.id in names


def _write_problem(folder: Path, one: Cheat) -> None:
    files = {}
    for path in PROBLEM.glob("*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
        files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = {
        "slug": "triangles",
        "lang": "py",
        "files": files,
        "submission": "submission.py",
        "tests": [_case(size) for size in CHECKED_SIZES],
        "benchmarks": [_case(TIMED_SIZE)],
        "ranking_by": "geom",
        "budgets_s": one.budgets_s(),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _case(size: int) -> dict[str, Any]:
    return {"name": f"size={size} seed=7", "args": {"size": size, "seed": 7}}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="the cheats of the processor too")
    parser.add_argument("--only", nargs="*", default=[], help="names or ids, such as T15")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("cheats.json"))
    parser.add_argument("--seconds", type=float, default=3600.0, help="for everything")
    parser.add_argument("--resume", action="store_true", help="only what has no row in --out yet")
    return parser.parse_args()


if __name__ == "__main__":
    main()
