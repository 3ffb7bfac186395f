"""Seconds from POST to ranked for an identity kernel, by stage, beside the plain style.

`python -m bench.turnaround [--smoke] [--gpu]`.
Both are measured in one run on one machine: first the platform, started empty in a temporary
folder; then the same evaluation as cold processes of `plain_eval.py`, one a stage, on the same
problem, kernel and number of calls. The ratio travels to other machines, the seconds do not.
With `--gpu`, the platform's agent may have a GPU, and the plain style, which has none, is left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bench.figures import Figure, at_most, report
from bench.noop_platform import ROOT, running_platform

PROBLEM = ROOT / "problems" / "identity"
KERNEL = PROBLEM / "solutions" / "correct" / "torch_copy.py"
UTILITIES = ROOT / "harness" / "src" / "harness" / "check" / "utilities.py"
END_S_MAX = 120
RUNS, RUNS_SMOKE = 3, 1
# On a busy machine a ranked run waits for quiet, which a smoke test does not.
MODES, MODES_SMOKE = ("test", "ranked"), ("test",)
# What a public pipeline starts for one job: a compile step, then each stage, cold.
PLAIN_STAGES = {"test": ("compile", "test"), "ranked": ("compile", "test", "benchmark")}
AUTHOR = {"Warpboard-Participant": "bench"}
STEPS = (
    ("accepted", "POST", "SubmissionReceived"),
    ("leased", "SubmissionReceived", "JobAssigned"),
    ("started", "JobAssigned", "RunStarted"),
    ("run", "RunStarted", "RunCompleted"),
    ("decided", "RunCompleted", "finished"),
    ("readable", "finished", "GET"),
)


def _submit(url: str, mode: str, gpu: str = "CPU") -> dict[str, float]:
    """One submission: the instants of its life, in seconds since the POST began."""
    form = {"problem": "identity", "gpu": gpu, "mode": mode}
    began = time.time()
    sent = {"file": (KERNEL.name, KERNEL.read_bytes())}
    answer = httpx.post(f"{url}/v1/submissions", data=form, files=sent, headers=AUTHOR, timeout=30)
    answer.raise_for_status()
    number = answer.json()["submissions"][0]["number"]
    found: dict[str, Any] = {"is_over": False, "version": -1}
    while not found["is_over"]:
        query: dict[str, Any] = {"after": found["version"], "wait_s": 20}
        path = f"{url}/v1/submissions/{number}"
        # A test is its owner's alone to read.
        answer = httpx.get(path, params=query, headers=AUTHOR, timeout=END_S_MAX)
        answer.raise_for_status()
        found = answer.json()
    ended = time.time()
    assert found["outcome"] == "passed", found["reason"]
    instants = {
        one["state"] if one["state"] == "finished" else one["type"]: datetime.fromisoformat(
            one["at"]
        ).timestamp()
        - began
        for one in found["timeline"]
    }
    # A hidden case says no more than its verdict.
    calls = sum(case.get("samples", 0) for case in found["cases"])
    return instants | {"POST": 0.0, "GET": ended - began, "calls": calls}


def _plain(folder: Path, mode: str, calls: int) -> dict[str, float]:
    """The same evaluation in the plain style: the wall seconds of each cold process."""
    took = {}
    script = str(ROOT / "bench" / "plain_eval.py")
    environ = {"PATH": os.defpath, "OMP_NUM_THREADS": "1"}
    for stage in PLAIN_STAGES[mode]:
        count = calls if stage == "benchmark" else 2
        began = time.monotonic()
        command = [sys.executable, script, stage, str(folder), str(KERNEL), str(count)]
        subprocess.run(command, check=True, capture_output=True, env=environ, timeout=END_S_MAX)
        took[stage] = time.monotonic() - began
    return took


def _problem_folder(home: Path) -> Path:
    """A copy of the problem as the agent fetched it, with the harness's utilities beside it."""
    (fetched,) = (home / "agent" / "problems").iterdir()
    folder = home / "plain"
    if not folder.exists():
        shutil.copytree(fetched, folder)
        (folder / "utils.py").write_text(UTILITIES.read_text())
    return folder


def _median(rows: list[dict[str, float]], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def _print(mode: str, ours: list[dict[str, float]], gpu: str = "CPU") -> Figure:
    print(f"\n{mode}: identity on {gpu}, median of {len(ours)} (least to most)")
    for name, start, end in STEPS:
        steps = [row[end] - row[start] for row in ours]
        least, most = min(steps), max(steps)
        print(f"  {name:<10} {statistics.median(steps):8.3f} s  ({least:.3f} to {most:.3f})")
    totals = [row["GET"] for row in ours]
    total = statistics.median(totals)
    print(f"  {'POST to end':<10} {total:7.3f} s  ({min(totals):.3f} to {max(totals):.3f})")
    return Figure(name=f"{mode}: POST to end", measured=total, unit="s")


def _print_plain(mode: str, total: float, plain: list[dict[str, float]]) -> Figure:
    for stage in PLAIN_STAGES[mode]:
        print(f"  plain {stage:<9} {_median(plain, stage):3.3f} s, a cold process")
    cold = statistics.median(sum(row.values()) for row in plain)
    print(f"  plain, all     {cold:4.3f} s; Warpboard takes {total / cold:.2f} of that")
    return Figure(
        name=f"{mode}: of the plain style",
        measured=total / cold,
        goal=at_most(1.0),
        note="a ranked run waits for quiet and times more processes (ADR 75)",
    )


def measure(mode: str, url: str, home: Path, runs: int) -> list[Figure]:
    """Warm up once, then measure ours and the plain style in turn, and print both."""
    _submit(url, mode)
    folder = _problem_folder(home)
    ours, plain = [], []
    for _ in range(runs):
        ours.append(_submit(url, mode))
        plain.append(_plain(folder, mode, int(ours[-1]["calls"])))
    total = _print(mode, ours)
    return [total, _print_plain(mode, total.measured, plain)]


def measure_gpu(url: str, modes: Sequence[str], runs: int, *, warms: bool) -> list[Figure]:
    """Measure on the GPU type of the platform's own agent; print and return it.

    `warms` makes a submission before, which is not measured.
    """
    (agent,) = httpx.get(f"{url}/v1/agents", timeout=30).raise_for_status().json()["items"]
    gpu = agent["gpu"]
    figures = []
    for mode in modes:
        if warms:
            _submit(url, mode, gpu)
        figures.append(_print(mode, [_submit(url, mode, gpu) for _ in range(runs)], gpu))
    return figures


def main() -> None:
    """Measure on a platform of our own, and stop it."""
    parser = argparse.ArgumentParser(prog="python -m bench.turnaround", description=__doc__)
    smoke_help = "mode test alone, once; on a GPU without a run to warm up"
    parser.add_argument("--smoke", action="store_true", help=smoke_help)
    parser.add_argument("--gpu", action="store_true", help="on what the agent here has")
    options = parser.parse_args()
    is_smoke = options.smoke
    runs, modes = (RUNS_SMOKE, MODES_SMOKE) if is_smoke else (RUNS, MODES)
    with running_platform() as platform:
        if options.gpu:
            found = measure_gpu(platform.url, modes, runs, warms=not is_smoke)
        else:
            found = [
                figure
                for mode in modes
                for figure in measure(mode, platform.url, platform.folder, runs)
            ]
    report(found)


if __name__ == "__main__":
    main()
