"""A small correct problem, to be spoilt one thing at a time, and an inspector for it."""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.entry import Harness, InspectReport, InspectRequest

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-problem.md"
# The codes of all findings, as their table lists them.
_TABLE = PAGE.read_text(encoding="utf-8").partition("| code | means |")[2].partition("\n\n")[0]
CODES = re.findall(r"^\| `(\w+)` \|", _TABLE, re.MULTILINE)

REFERENCE = """\
import os
import time

import torch


def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, size, generator=generator)
    return x, torch.zeros_like(x)


def wanted(x):
    return torch.tanh(x) + x


def ref_kernel(data):
    x, output = data
    output.copy_(wanted(x))
    return output


def check_implementation(data, output):
    want = wanted(data[0])
    if output.shape != want.shape:
        return False, "the shape is another"
    if output.dtype != want.dtype:
        return False, "the dtype is another"
    if not bool(((output - want).abs() <= 1e-5).all()):
        return False, "values differ"
    return True, ""
"""
TASK = """\
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
description: "Adds a tangent."
config: {"main": "eval.py"}
templates: {"Python": "template.py"}
tests:
  - {"size": 4, "seed": 7}
  - {"size": 9, "seed": 8}
benchmarks:
  - {"size": 32, "seed": 3}
gpus: ["CPU"]
"""
TEMPLATE = "def custom_kernel(data):\n    return data[1]\n"
RIGHT = """\
import torch


def custom_kernel(data):
    x, output = data
    return output.copy_(torch.tanh(x) + x)
"""
FILES: Mapping[str, str] = {
    "task.yml": TASK,
    "reference.py": REFERENCE,
    "template.py": TEMPLATE,
    "solutions/correct/right.py": RIGHT,
    "solutions/wrong/half.py": RIGHT.replace("+ x", "+ x / 2"),
}


@dataclass(frozen=True)
class Inspector:
    """A warm harness, and the event loop it runs in."""

    runner: asyncio.Runner
    harness: Harness

    def look(self, folder: Path, **bounds: Any) -> InspectReport:
        """Inspect the problem in a folder."""
        return self.runner.run(self.harness.inspect(InspectRequest(str(folder), **bounds)))


def lay_out(folder: Path, reference: str = REFERENCE, **more: Any) -> Path:
    """Write a problem version to a folder, in the form the harness gets."""
    (folder / "reference.py").write_text(reference)
    digest = hashlib.sha256(reference.encode()).hexdigest()
    manifest = {
        "slug": "tangent",
        "lang": "py",
        "files": {"reference.py": digest},
        "submission": "submission.py",
        "tests": [_case(4, 7), _case(9, 8)],
        "benchmarks": [_case(32, 3)],
        "ranking_by": "last",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | more))
    return folder


def write(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Write a problem's directory, in its author's form."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _case(size: int, seed: int) -> dict[str, Any]:
    return {"name": f"size={size} seed={seed}", "args": {"size": size, "seed": seed}}
