"""The older and foreign forms of a problem run in the same harness."""

from typing import Any

import pytest

from harness.messages import RunReport
from tests.support.harness import Host

OLDER = """
import torch
def generate_input():
    return {"x": torch.randn(64), "by": 2.5, "also": [torch.ones(3), (True, "word", None)]}
def ref_kernel(data):
    data["x"] *= data["by"]  # in place, which nobody else may see
    return data["x"], {"ones": data["also"][0] + 1}
def check_implementation(user_output, reference_output):
    return all((
        torch.allclose(user_output[0], reference_output[0]),
        torch.equal(user_output[1]["ones"], reference_output[1]["ones"]),
    ))
"""
SCALED = """
def custom_kernel(data):
    assert data["also"][1] == (True, "word", None)
    return data["x"] * data["by"], {"ones": data["also"][0] + 1}
"""
MODEL = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, width, share):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.drop = nn.Dropout(share)
    def forward(self, x, index):
        noise = torch.rand(())
        return self.drop(torch.relu_(x)) @ self.layer.weight + noise + index.sum()
def get_inputs():
    return [torch.rand(5, 8).double(), torch.randint(0, 9, (3,))]
def get_init_inputs():
    return [8, 0.5]
"""


@pytest.fixture
def one(host: Host) -> Host:
    """A host whose problem has one case without arguments, called three times."""
    cases = [{"name": "case", "args": {}}]
    host.told_besides = {"tests": cases, "benchmarks": cases, "form": "outputs", "calls": 3}
    host.files["reference.py"] = OLDER
    return host


def said(report: RunReport) -> tuple[str, str]:
    assert report.failure_code == "", report.reason
    return report.verdict, report.reason


def test_a_check_of_two_outputs_judges(one: Host) -> None:
    assert said(one.run(SCALED, "benchmark"))[0] == "passed"
    wrong = one.run(SCALED.replace('* data["by"]', "* 2.4"))
    assert (wrong.verdict, wrong.cases[0].wrong > 0) == ("wrong_answer", True)


def test_calls_without_a_seed_have_fresh_inputs(one: Host) -> None:
    cached = "kept = []\n" + SCALED.replace(
        "    return", '    kept.append(data["x"] * data["by"])\n    return kept[0],'
    ).replace('kept[0], data["x"] * data["by"],', "kept[0],")
    assert said(one.run(cached))[0] == "wrong_answer"


def modelled(one: Host, source: str, mode: str = "test") -> tuple[str, str]:
    one.told_besides["form"], one.files["reference.py"] = "kernelbench", MODEL
    return said(one.run(source, mode))


NEW = MODEL.replace("class Model(", "class ModelNew(")


@pytest.mark.long
def test_a_model_with_the_same_weights_and_draws_passes(one: Host) -> None:
    assert modelled(one, NEW, "ranked")[0] == "passed"


def test_a_model_that_mentions_an_extension_is_built_and_found(one: Host) -> None:
    """A builder imports it first, and must look for ModelNew too."""
    found = modelled(one, f"# no torch.utils.cpp_extension here\n{NEW}")
    assert found[0] == "passed", found


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ("+ index.sum()", "", "wrong_answer", "40 of 40 values are off by more than 0.0001"),
        ("self.layer = ", "self.layer = nn.Linear(2, 2); self.layer = ", "wrong_answer", "off by"),
        ("return self.drop", "return 3  # ", "wrong_answer", ""),
        ("class ModelNew(", "class Other(", "import_error", "defines no class ModelNew"),
    ],
)
def test_a_model_that_differs_does_not(
    one: Host, old: str, new: str, verdict: str, words: str
) -> None:
    found: Any = modelled(one, NEW.replace(old, new))
    assert found[0] == verdict
    assert words in found[1]


SMALL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1), x * 3
def get_inputs():
    return [torch.rand(2, 60000)]
def get_init_inputs():
    return []
"""
IN_HALF_PRECISION = "torch.softmax(x.bfloat16(), dim=-1).float(), x * 3"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True), x * 3", "passed"),
        (IN_HALF_PRECISION, "passed"),
        ("torch.zeros_like(x), x * 3", "wrong_answer"),
        ("torch.full_like(x, 1 / 60000), x * 3", "wrong_answer"),
        ("torch.softmax(x, dim=-1).roll(1, 0), x * 3", "wrong_answer"),
        ("torch.softmax(x, dim=-1), torch.zeros_like(x)", "wrong_answer"),
    ],
)
def test_a_small_answer_of_a_model_must_be_computed(one: Host, answer: str, verdict: str) -> None:
    """Every value of the first output is about 1e-5, far below the absolute tolerance."""
    one.told_besides["form"], one.files["reference.py"] = "kernelbench", SMALL
    lazy = SMALL.replace("class Model(", "class ModelNew(")
    found = said(one.run(lazy.replace("torch.softmax(x, dim=-1), x * 3", answer)))
    assert found[0] == verdict, found


def test_a_model_has_its_smaller_sizes_on_the_processor(one: Host) -> None:
    one.files["reference_cpu.py"] = MODEL.replace("rand(5, 8)", "rand(3, 8)")
    found = modelled(one, NEW.replace("noise =", "assert len(x) == 3; noise ="))
    assert found[0] == "passed", found


def test_a_file_without_a_model_is_the_problems_fault(one: Host) -> None:
    one.told_besides["form"] = "kernelbench"
    one.files["reference.py"] = MODEL.replace("class Model(", "class Moddel(")
    report = one.run(NEW)
    assert report.failure_code == "problem_fault"
    assert "reference.py defines no class Model" in report.reason
