"""`problem check` judges timed sizes that this machine cannot hold by smaller ones."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.api.submissions import Progress
from shared.checks.ranked_sizes import inspect_ranked_sizes
from shared.problem_versions import load_problem
from shared.problems.report import Finding
from tests.problems.inspection import write
from warpboard.local_run import LocalHarness

pytestmark = [pytest.mark.box, pytest.mark.long]

REFERENCE = """\
import torch


def generate_input(columns, seed):
    return torch.rand(4, columns, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    return torch.softmax(data, dim=-1)


def check_implementation(data, output):
    want = ref_kernel(data)
    if output.shape != want.shape or output.dtype != want.dtype:
        return False, "another form"
    return bool(((output - want).abs() <= BOUND).all()), "values differ"
"""
TASK = """\
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
description: "A softmax."
config: {"main": "eval.py"}
templates: {}
tests:
  - {"columns": 64, "seed": 7}
benchmarks:
  - {"columns": 68719476736, "seed": 3}
gpus: ["H100"]
"""
SOLUTION = "import torch\n\n\ndef custom_kernel(data):\n    return torch.softmax(data, dim=-1)\n"
TASK_FILES = {"task.yml": TASK, "solutions/correct/right.py": SOLUTION}
MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return ANSWER


def get_inputs():
    return [torch.rand(SHAPE)]


def get_init_inputs():
    return []
"""
DEFINITION = {
    "name": "softmax",
    "op_type": "softmax",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "import torch\n\n\ndef run(x):\n    return torch.softmax(x, dim=-1)\n",
}
WORKLOAD = {
    "definition": "softmax",
    "workload": {"uuid": "large", "axes": {"n": 2**31}, "inputs": {"x": {"type": "random"}}},
}


def model(answer: str, shape: str) -> str:
    """Return a model with an input of this shape."""
    return MODEL.replace("ANSWER", answer).replace("SHAPE", shape)


PROBLEMS: Mapping[str, Mapping[str, str]] = {
    "absolute": {**TASK_FILES, "reference.py": REFERENCE.replace("BOUND", "1e-4")},
    "relative": {**TASK_FILES, "reference.py": REFERENCE.replace("BOUND", "1e-3 * want")},
    "softmax": {"1_s.py": model("torch.softmax(x, dim=-1)", "4, 68719476736")},
    "mean": {"2_m.py": "N = 2**30\n" + model("x.mean(dim=1)", "16, 1073741824, 16")},
    "largest": {"3_a.py": model("torch.argmax(x, dim=-1)", "64, 1073741824")},
    "definition": {
        "definition.json": json.dumps(DEFINITION),
        "workloads.jsonl": json.dumps(WORKLOAD),
    },
}


async def inspected(folder: Path) -> dict[str, dict[str, Finding]]:
    """Inspect each problem and its ranked sizes; return the findings on these by code."""

    async def ignore(_: Progress) -> None:
        pass

    found = {}
    async with LocalHarness().warm() as harness:
        for slug, files in PROBLEMS.items():
            path = write(folder / slug, files)
            (name, *others) = files
            problem = load_problem(path if others else path / name, None, ("H100",))
            answer = await harness.inspect(problem, ignore)
            findings = await inspect_ranked_sizes(harness, problem, answer, ignore)
            found[slug] = {finding.code: finding for finding in findings}
    return found


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Finding]]:
    """Inspect all problems in one harness."""
    return asyncio.run(inspected(tmp_path_factory.mktemp("problems")))


def test_an_absolute_tolerance_that_is_too_wide_at_the_ranked_size_is_an_error(
    findings: dict[str, dict[str, Finding]],
) -> None:
    finding = findings["absolute"]["check_takes_zeros"]
    assert finding.level == "error"
    assert "of its sizes, as this machine cannot hold it" in finding.text


@pytest.mark.parametrize("slug", ["relative", "softmax", "largest", "definition"])
def test_a_tolerance_that_scales_is_said_to_be_judged_by_smaller_sizes(
    slug: str, findings: dict[str, dict[str, Finding]]
) -> None:
    assert {code: one.level for code, one in findings[slug].items()} == {"not_inspected": "warning"}
    text = findings[slug]["not_inspected"].text
    assert "judged by 1/" in text
    assert " of the way to " in text


def test_an_answer_that_hardly_varies_at_the_ranked_size_is_an_error(
    findings: dict[str, dict[str, Finding]],
) -> None:
    finding = findings["mean"]["check_takes_constant"]
    assert finding.level == "error"
    assert "the middle of the answer's range" in finding.text
