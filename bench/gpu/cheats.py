"""`python -m bench.gpu.cheats`: the corpus of cheats on a GPU, by the entry that the agents use.

The cheats of the processor run here too where their header says `# gpu: yes`; `--all` runs every
one, for a box is a box. A control that fails comes first: then nothing below it counts.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.gpu.table import write_document
from harness.entry import Harness, Progress, RunReport, RunRequest, StageFinished, Started
from tests.cheats.corpus import SUBMISSIONS, Cheat, cheat
from tests.cheats.outcomes import faults, time_faults
from tests.cheats.trials import Ended, alone_us

PROBLEM = Path(__file__).parent / "problem"
# A cheat is not begun with less: its run would be cut short.
LEFT_S_MIN = 15.0
CHECKED_SIZES = (64, 128)
TIMED_SIZE = 1024


def main() -> None:
    """Runs what was asked for, and says of each whether its header's promise held."""
    options = _options()
    until = time.monotonic() + options.seconds
    rows = _earlier_rows(options.out) if options.resume else []
    known = {row["name"] for row in rows}
    chosen = [one for one in _corpus(is_all=options.all) if _is_named(one, options.only)]
    chosen = [one for one in chosen if one.name not in known]
    alone = max((row.get("alone_us", 0.0) for row in rows), default=0.0)
    harness = Harness()
    with tempfile.TemporaryDirectory(prefix="cheats-") as folder, asyncio.Runner() as runner:
        Path(folder).chmod(0o755)
        for number, one in enumerate(chosen):
            began = time.monotonic()
            if began > until - LEFT_S_MIN:
                print(f"{len(chosen) - number} cheats are left for a later call: no time")
                break
            ended = [
                _run(runner, harness, _request(one, Path(folder) / f"{number}-{run}", options))
                for run in range(int(one.number("runs", 1)))
            ]
            if one.name == "gpu_honest" and ended[-1].report.verdict == "passed":
                alone = alone_us(ended)
            took_s = round(time.monotonic() - began, 1)
            row = _row(one, ended, _said(one, ended, alone)) | {"took_s": took_s}
            rows.append(row | ({"alone_us": alone} if one.name == "gpu_honest" else {}))
            _print(rows[-1])
            write_document(rows, options.out)
        runner.run(harness.close())
    failed = [row["name"] for row in rows if row["faults"]]
    print(f"{len(rows)} cheats, not as promised: {' '.join(failed) or 'none'}; {options.out}")
    raise SystemExit(bool(failed))


def _run(runner: asyncio.Runner, harness: Harness, request: RunRequest) -> Ended:
    level = tier = ""

    async def told(message: Started | Progress | StageFinished) -> None:
        nonlocal level, tier
        if isinstance(message, Started):
            level, tier = message.level, message.tier

    report = runner.run(harness.evaluate(request, told))
    out = Path(request.out)
    log = out / "log.txt"
    text = log.read_text() if log.exists() else ""
    return Ended(report, level, tier, text, list(_samples(out / "samples.json.gz")))


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
        "times_us": times,
        "faults": said,
        "log": ended[-1].log[-2000:],
    }


def _print(row: dict[str, Any]) -> None:
    verdict = row["verdict"] or row["failure_code"]
    said = "; ".join(row["faults"]) or "as promised"
    took = f"{row['tier']} {row['took_s']:>5} s"
    print(f"{row['id']:<24} | {row['expect']:<44} | {verdict:<12} | {took} | {said}", flush=True)


def _samples(path: Path) -> Iterator[float]:
    """The time of every call in a run's records; none where nothing was timed."""
    if not path.exists():
        return
    for case in json.loads(gzip.decompress(path.read_bytes()))["cases"].values():
        for process in case["processes"]:
            yield from process["warm_ups"]["time_us"]
            for block in process["blocks"]:
                yield from block["time_us"]


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
