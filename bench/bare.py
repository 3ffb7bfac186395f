"""A bare loop: `python -m bench.bare PROBLEM SOURCES`, the cost of an evaluation without a harness.

A warm process forks for each source. The child loads the source, makes each test's input, calls the
kernel, checks the output and exits. Nothing protects the check from the kernel. PROBLEM is a
compiled problem's folder, SOURCES a folder of kernels. Prints how many passed, the seconds that it
took, and the processor time of what came before.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from bench.alone import load

PASSED, WRONG, CRASHED = 0, 1, 2


def evaluate(source: Path, reference: Any, cases: list[dict[str, Any]]) -> int:
    """Return how a source fares: PASSED or WRONG."""
    kernel = load("submission", source).custom_kernel
    for arguments in cases:
        data = reference.generate_input(**arguments)
        is_right, _ = reference.check_implementation(data, kernel(data))
        if not is_right:
            return WRONG
    return PASSED


def run(source: Path, reference: Any, cases: list[dict[str, Any]]) -> bool:
    """Evaluate a source in a fork, and return whether it passed."""
    child = os.fork()
    if child == 0:
        status = CRASHED
        try:
            status = evaluate(source, reference, cases)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main(problem: Path, sources: Path) -> None:
    """Evaluate all sources and print the result."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(problem))
    reference = load("reference", problem / "reference.py")
    tests = json.loads((problem / "manifest.json").read_text())["tests"]
    cases = [test["args"] for test in tests]
    files = sorted(sources.iterdir())
    run(files[0], reference, cases)
    before, began = os.times(), time.monotonic()
    passed = sum(run(file, reference, cases) for file in files)
    print(passed, time.monotonic() - began, sum(before[:4]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
