"""A timed run has a yardstick: a fixed correct kernel of its problem, in a box of its own."""

import shutil
from pathlib import Path

import pytest

from harness.check import utilities
from harness.messages import RunReport
from tests.support.harness import HONEST, Host

from . import test_cuda_shim, test_forms, test_native_reference, test_objects, test_ranks

# Each times its cases in two boxes.
pytestmark = pytest.mark.long

HAS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


def passed(report: RunReport) -> bool:
    """Whether every call passed, the yardstick's too."""
    assert (report.verdict, report.failure_code) == ("passed", ""), (report.reason, report.log_tail)
    return all(case.time_us for case in report.cases if case.stage == "time")


def log(host: Host) -> str:
    """What the yardstick has printed."""
    return (host.out / "yardstick-log.txt").read_text()


def test_a_reference_with_keyword_cases_is_the_yardstick(host: Host) -> None:
    host.files["reference.py"] += "\nprint('imported as', __name__)\n"
    assert passed(host.run(HONEST, "benchmark"))
    assert "imported as reference" in log(host)
    assert "imported" not in host.run(HONEST, "benchmark").log_head


def test_a_reference_that_writes_into_its_data_is_the_yardstick(host: Host) -> None:
    cases = [{"name": "case", "args": {}}]
    host.told_besides = {"tests": cases, "benchmarks": cases, "form": "outputs"}
    host.files["reference.py"] = test_forms.OLDER
    assert passed(host.run(test_forms.SCALED, "benchmark"))


@pytest.mark.parametrize("is_reduced", [False, True])
def test_a_model_is_the_yardstick(host: Host, *, is_reduced: bool) -> None:
    cases = [{"name": "case", "args": {}}]
    host.told_besides = {"tests": cases, "benchmarks": cases, "form": "kernelbench"}
    model = "import torch\ntorch.ones(2, device='cuda')\n" + test_forms.MODEL
    host.files["reference.py"] = model
    if is_reduced:
        host.files["reference_cpu.py"] = model.replace("rand(5, 8)", "rand(3, 8)")
    assert passed(host.run(test_forms.NEW, "benchmark"))


def test_a_reference_for_cuda_is_the_yardstick_on_the_processor(host: Host) -> None:
    host.files["reference.py"] = test_cuda_shim.REFERENCE
    assert passed(host.run(test_cuda_shim.RIGHT, "benchmark"))


def test_a_reference_with_its_own_classes_is_the_yardstick(host: Host) -> None:
    host.files["reference.py"] = test_objects.REFERENCE
    assert passed(host.run(test_objects.RIGHT, "benchmark"))


def test_a_reference_of_several_files_is_the_yardstick(host: Host) -> None:
    host.files |= {
        "reference.py": "from helpers import *\nimport utils\nassert utils.verbose_allequal\n",
        "helpers.py": host.files["reference.py"],
        "utils.py": Path(str(utilities.__file__)).read_text(),
    }
    assert passed(host.run(HONEST, "benchmark"))


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        (test_ranks.REFERENCE, test_ranks.ALONE),
        (test_ranks.COLLECTIVE, test_ranks.GATHERED),
    ],
)
def test_a_reference_of_several_ranks_is_the_yardstick(
    host: Host, reference: str, source: str
) -> None:
    host.files["reference.py"] = reference
    host.more = {"world_size": 2}
    assert passed(host.run(source, "benchmark"))


native = test_native_reference.native
viewed = test_native_reference.viewed


@HAS_COMPILER
def test_a_reference_in_cpp_is_the_yardstick(native: Host) -> None:
    assert passed(native.run(test_native_reference.RIGHT, "benchmark", suffix=".cu"))


@HAS_COMPILER
def test_a_reference_whose_arrays_are_on_the_host_is_the_yardstick(viewed: Host) -> None:
    assert passed(viewed.run(test_native_reference.VIEWS, "benchmark", suffix=".cu"))


OTHER = "print('the solution')\n" + HONEST


@pytest.mark.parametrize("submission", [HONEST, OTHER])
def test_a_named_solution_is_the_yardstick(host: Host, submission: str) -> None:
    host.files["yardstick.py"] = OTHER
    host.told_besides = {"yardstick": "yardstick.py"}
    assert passed(host.run(submission, "benchmark"))
    assert log(host).count("the solution") == 1


@HAS_COMPILER
def test_a_named_solution_in_cpp_is_the_yardstick(host: Host) -> None:
    host.files["yardstick.cpp"] = """
#include "warpboard.h"
#include <cstring>
extern "C" int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *,
                             void *) {
    std::memcpy(outputs[0].data, inputs[0].data, 4 * wb_numel(&inputs[0]));
    return 0;
}
"""
    host.told_besides = {"yardstick": "yardstick.cpp"}
    assert passed(host.run(HONEST, "benchmark"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (HONEST.replace("data[0])", "data[0] + 1)"), "the yardstick failed (wrong_answer) on"),
        ("import nothing_of_this_name", "the yardstick failed (import_error)"),
        (
            HONEST.replace("    data", "    import os; os.abort()\n    data", 1),
            "failed (crashed) on",
        ),
    ],
)
def test_a_yardstick_that_fails_is_the_problems_fault(host: Host, source: str, words: str) -> None:
    host.files["yardstick.py"] = source
    host.told_besides = {"yardstick": "yardstick.py"}
    report = host.run(HONEST, "benchmark")
    assert report.failure_code == "problem_fault", report.reason
    assert words in report.reason
    assert "name a correct solution as `yardstick`" in report.reason


def test_a_run_that_times_nothing_has_no_yardstick(host: Host) -> None:
    assert passed(host.run(HONEST, "test"))
    assert not (host.out / "yardstick-log.txt").exists()
