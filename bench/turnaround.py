"""Seconds from POST to ranked for an identity kernel, by stage, and what spares save.

`python -m bench.turnaround [--smoke] [--gpu]`. With `--gpu`, the platform's agent may have a GPU.
`bench.peers` has the same for another platform.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bench import spares
from bench.figures import Figure, report
from bench.noop_platform import PROBLEM, ROOT, running_platform

KERNEL = ROOT / "problems" / PROBLEM / "solutions" / "correct" / "torch_copy.py"
END_S_MAX = 120
RUNS, RUNS_SMOKE = 3, 1
MODES, MODES_SMOKE = ("test", "ranked"), ("test",)
AUTHOR = {"Warpboard-Participant": "bench"}
STEPS = (
    ("accepted", "POST", "SubmissionReceived"),
    ("leased", "SubmissionReceived", "JobAssigned"),
    ("started", "JobAssigned", "RunStarted"),
    ("run", "RunStarted", "RunCompleted"),
    ("decided", "RunCompleted", "finished"),
    ("readable", "finished", "GET"),
)


def submit(
    url: str, mode: str, gpu: str = "CPU", *, problem: str = PROBLEM, kernel: Path = KERNEL
) -> dict[str, float]:
    """Submit a kernel, wait for its end, and return the instants in between.

    They are in seconds since the POST began; `calls` is the number of timed calls that count.
    """
    form = {"problem": problem, "gpu": gpu, "mode": mode}
    began = time.time()
    sent = {"file": (kernel.name, kernel.read_bytes())}
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


def measure(url: str, modes: Sequence[str], runs: int, *, warms: bool) -> list[Figure]:
    """Measure on the GPU type of the platform's own agent; print and return it.

    `warms` makes a submission before, which is not measured.
    """
    (agent,) = httpx.get(f"{url}/v1/agents", timeout=30).raise_for_status().json()["items"]
    gpu = agent["gpu"]
    figures = []
    for mode in modes:
        if warms:
            submit(url, mode, gpu)
        figures.append(_print(mode, [submit(url, mode, gpu) for _ in range(runs)], gpu))
    return figures


def main() -> None:
    """Measure on a platform of our own, and stop it."""
    parser = argparse.ArgumentParser(prog="python -m bench.turnaround", description=__doc__)
    smoke_help = "mode test alone, once; on a GPU without a run to warm up"
    parser.add_argument("--smoke", action="store_true", help=smoke_help)
    parser.add_argument("--gpu", action="store_true", help="on what the agent here has")
    options = parser.parse_args()
    runs, modes = (RUNS_SMOKE, MODES_SMOKE) if options.smoke else (RUNS, MODES)
    warms = not (options.gpu and options.smoke)
    # The comparison of the harness is made on the processor.
    figures = [] if options.gpu else spares.measure(is_smoke=options.smoke)
    with running_platform() as platform:
        figures += measure(platform.url, modes, runs, warms=warms)
    report(figures)


if __name__ == "__main__":
    main()
