"""What data and outputs may be, shown by whole runs of problems with other shapes."""

import pytest

from tests.support.harness import Host

NESTED = """
import torch
def generate_input(size, seed):
    torch.manual_seed(seed)
    return {"x": torch.randn(size, size).t(), "rest": [2.5, ("add", True, None)], 3: torch.ones(0)}
def ref_kernel(data):
    return {"sum": data["x"] + data["rest"][0], "parts": [data["x"] > 0, (data["x"] * 9).int()]}
def check_implementation(data, output):
    want = ref_kernel(data)
    if not torch.equal(output["parts"][0], want["parts"][0]):
        return ["the signs differ"]
    return [] if torch.allclose(output["sum"], want["sum"]) else ["the sums differ"]
"""
NESTED_SOLVED = """
def custom_kernel(data):
    assert data["x"].stride() == (1, data["x"].shape[0])
    assert data["rest"][1] == ("add", True, None) and data[3].numel() == 0
    return {"parts": [data["x"] > 0, (data["x"] * 9).int()], "sum": data["x"] + data["rest"][0]}
"""
IN_PLACE = """
import torch
def generate_input(size, seed):
    return torch.rand(size, size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    data.copy_(data.sort().values)
    return data
def check_implementation(data, output):
    return torch.equal(output, ref_kernel(data))
"""
SHORT_SEEDS = """
import numpy, torch
def generate_input(size, seed):
    return torch.from_numpy(numpy.random.RandomState(seed).rand(size))
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    return "" if torch.equal(output, data * 2) else "not twice"
"""
GLOBAL = """
import random
import torch
def generate_input(size, seed):
    return torch.rand(size) + random.random()
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    return torch.equal(output, data * 2), ""
"""
TWICE = "def custom_kernel(data):\n    return data * 2\n"


@pytest.mark.parametrize(
    ("reference", "solution"),
    [
        (NESTED, NESTED_SOLVED),
        (IN_PLACE, "def custom_kernel(data):\n    return data.sort().values\n"),
        (IN_PLACE, "def custom_kernel(data):\n    return data.copy_(data.sort().values)\n"),
        (SHORT_SEEDS, TWICE),
        (GLOBAL, TWICE),
    ],
    ids=["nested", "in_place", "in_place_truly", "short_seeds", "global_generators"],
)
def test_a_right_answer_passes_whatever_the_data_is(
    host: Host, reference: str, solution: str
) -> None:
    host.files["reference.py"] = reference
    report = host.run(solution)
    assert report.verdict == "passed", report.reason


def test_a_wrong_part_of_a_nested_answer_is_found(host: Host) -> None:
    host.files["reference.py"] = NESTED
    report = host.run(NESTED_SOLVED.replace("> 0", ">= 0.5"))
    assert report.reason.endswith("the signs differ")


def test_an_input_returned_as_it_is_cannot_pass_for_sorted(host: Host) -> None:
    host.files["reference.py"] = IN_PLACE
    assert host.run("def custom_kernel(data):\n    return data\n").verdict == "wrong_answer"


def test_shapes_that_hang_on_the_seed_are_a_fault_of_the_problem(host: Host) -> None:
    reference = GLOBAL.replace("torch.rand(size)", "torch.rand(1 + seed % 1000)")
    host.files["reference.py"] = reference
    report = host.run(TWICE)
    assert report.failure_code == "problem_fault"
    assert "other shapes" in report.reason
