"""A known kernel, run as a submission: a machine where it fails must not judge others."""

import hashlib
import json
from pathlib import Path

_HERE = Path(__file__).parent
_SIZE = 4096
# Imports come from a slow disk on some machines.
_BUDGET_S = 60


def write_self_test(folder: Path) -> tuple[Path, Path, Path]:
    """Write the problem to a folder. Return the problem, the kernel and an empty output folder."""
    problem, out = folder / "problem", folder / "out"
    problem.mkdir()
    out.mkdir()
    reference = (_HERE / "reference.py").read_bytes()
    (problem / "reference.py").write_bytes(reference)
    manifest = {
        "slug": "self-test",
        "lang": "py",
        "files": {"reference.py": hashlib.sha256(reference).hexdigest()},
        "submission": "submission.py",
        "tests": [{"name": f"size={_SIZE}", "args": {"size": _SIZE, "seed": 1}}],
        "benchmarks": [{"name": f"size={_SIZE}", "args": {"size": _SIZE, "seed": 2}}],
        "ranking_by": "last",
        "budgets_s": dict.fromkeys(("build", "test", "benchmark", "ranked"), _BUDGET_S),
    }
    (problem / "manifest.json").write_text(json.dumps(manifest))
    return problem, _HERE / "kernel.py", out
