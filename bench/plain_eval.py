"""One stage of the plain style: a cold process that imports, checks and times in itself.

Usage: `python plain_eval.py MODE PROBLEM_DIR SUBMISSION CALLS`, with MODE compile, test or
benchmark. It is what today's public harnesses do, and what Warpboard must not be slower than;
its verdicts and times can be forged by the submission, so it serves as a yardstick alone.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any


def load(name: str, path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def evaluate(mode: str, folder: Path, submission: str, calls: int) -> dict[str, Any]:
    """Run one stage on every case of the manifest beside the problem's files."""
    for helper in folder.glob("utils.py"):
        load("utils", helper)
    for helper in folder.glob("task.py"):
        load("task", helper)
    reference = load("reference", folder / "reference.py")
    kernel = load("submission", Path(submission)).custom_kernel
    manifest = json.loads((folder / "manifest.json").read_text())
    if mode == "compile":
        return {}
    best: dict[str, float] = {}
    for case in manifest["tests" if mode == "test" else "benchmarks"]:
        best[case["name"]] = _case(reference, kernel, case["args"], calls)
    return best


def _case(reference: Any, kernel: Any, arguments: dict[str, Any], calls: int) -> float:
    best = float("inf")
    for call in range(calls):
        data = reference.generate_input(**arguments | {"seed": arguments["seed"] + call})
        began = time.perf_counter()
        output = kernel(data)
        best = min(best, time.perf_counter() - began)
        is_right, said = reference.check_implementation(data, output)
        assert is_right, said
    return best


if __name__ == "__main__":
    print(json.dumps(evaluate(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
