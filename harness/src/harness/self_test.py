"""A known kernel, run as a submission: a machine where it fails must not judge others."""

import hashlib
import json
from pathlib import Path

_SIZE = 4096
# Imports come from a slow disk on some machines.
_BUDGET_S = 60

_KERNEL = """
def custom_kernel(data):
    values, output = data
    output.copy_(values)
    return output
"""
# Copying a vector must pass wherever a submission can be judged.
_REFERENCE = """
import torch


def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator), torch.empty(size)


def ref_kernel(data):
    values, output = data
    output.copy_(values)
    return output


def check_implementation(data, output):
    return bool(torch.equal(data[0], output)), "the copy differs from its source"
"""


def write_self_test(folder: Path) -> tuple[Path, Path, Path]:
    """Write the problem to a folder. Return the problem, the kernel and an empty output folder."""
    problem, kernel, out = folder / "problem", folder / "kernel.py", folder / "out"
    problem.mkdir()
    out.mkdir()
    kernel.write_text(_KERNEL)
    (problem / "reference.py").write_text(_REFERENCE)
    manifest = {
        "slug": "self-test",
        "lang": "py",
        "files": {"reference.py": hashlib.sha256(_REFERENCE.encode()).hexdigest()},
        "submission": "submission.py",
        "tests": [{"name": f"size={_SIZE}", "args": {"size": _SIZE, "seed": 1}}],
        "benchmarks": [{"name": f"size={_SIZE}", "args": {"size": _SIZE, "seed": 2}}],
        "ranking_by": "last",
        "budgets_s": dict.fromkeys(("build", "test", "benchmark", "ranked"), _BUDGET_S),
    }
    (problem / "manifest.json").write_text(json.dumps(manifest))
    return problem, kernel, out
