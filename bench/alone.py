"""The median time of a kernel by itself in this process: `python -m bench.alone PROBLEM KERNEL`.

The process has a real-time priority, so nothing else runs on its core during a call. It sleeps
before each one, as a worker waits for its next input: after that a call of no work takes 20 us
instead of 3 us, because caches and predictors have forgotten the code. Prints microseconds.
"""

import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path
from types import ModuleType

import torch

CALLS_MIN, MEASURED_S = 25, 0.5
PAUSE_S = 0.001
PRIORITY = 1


def load(name: str, path: Path) -> ModuleType:
    """Import a file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def measure(problem: Path, source: Path) -> float:
    """Return the median time of a call on fresh inputs of the last benchmark, in microseconds."""
    generate_input = load("reference", problem / "reference.py").generate_input
    kernel = load("submission", source).custom_kernel
    arguments = json.loads((problem / "manifest.json").read_text())["benchmarks"][-1]["args"]
    times_us: list[float] = []
    until = time.monotonic() + MEASURED_S
    while len(times_us) < CALLS_MIN or time.monotonic() < until:
        data = generate_input(**arguments | {"seed": len(times_us)})
        time.sleep(PAUSE_S)
        began = time.perf_counter_ns()
        kernel(data)
        times_us.append((time.perf_counter_ns() - began) / 1e3)
    return statistics.median(times_us)


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    print(measure(Path(sys.argv[1]), Path(sys.argv[2])))
