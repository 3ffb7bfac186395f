"""What a run measures besides its times, and whether it is in a problem's bounds."""

import math

import pytest
import torch

from harness.check.judging import AnswerErrors
from harness.metrics import describe_excesses, read_metrics
from tests.support.harness import HONEST, Host

LIMITS: list[dict[str, object]] = [
    {"metric": "peak_memory_mib", "max": 8.0},
    {"metric": "least_speedup"},
]


@pytest.mark.box
@pytest.mark.feature("N13")
def test_a_ranked_run_measures_its_metrics_and_says_which_are_out_of_bounds(host: Host) -> None:
    host.told_besides = {"metrics": LIMITS}
    report = host.run(HONEST, "ranked")
    assert report.verdict == "passed", report.reason
    public = [case for case in report.cases if case.yardstick_us and case.time_us]
    assert report.metrics["least_speedup"] == pytest.approx(
        min((case.yardstick_us or 0.0) / (case.time_us or 1.0) for case in public)
    )
    # An interpreter alone takes more than the bound.
    assert report.metrics["peak_memory_mib"] > 8.0
    assert report.over_limit.endswith("this problem ranks at most 8")


NEARLY = """
def custom_kernel(data):
    data[1].copy_(data[0] + 1e-6)
    return data[1]
"""


@pytest.mark.box
@pytest.mark.feature("N13")
def test_the_errors_of_an_answer_and_the_devices_memory_are_metrics(host: Host) -> None:
    names = ("max_absolute_error", "max_relative_error", "device_memory_mib", "peak_memory_mib")
    host.told_besides = {"metrics": [{"metric": name} for name in names]}
    exact = host.run(HONEST, "ranked")
    assert exact.verdict == "passed", exact.reason
    assert (exact.metrics["max_absolute_error"], exact.metrics["max_relative_error"]) == (0.0, 0.0)
    # On a processor the device's memory is the machine's.
    assert exact.metrics["device_memory_mib"] == exact.metrics["peak_memory_mib"]
    check = "utils.verbose_allclose(output, ref_kernel(data), 0.0, 1e-4)"
    exactly = "utils.verbose_allequal(output, ref_kernel(data))"
    host.files = {name: text.replace(exactly, check) for name, text in host.files.items()}
    host.told_besides = {"metrics": [{"metric": "max_absolute_error", "max": 1e-7}]}
    near = host.run(NEARLY, "ranked")
    assert near.verdict == "passed", near.reason
    assert 5e-7 < near.metrics["max_absolute_error"] < 2e-6
    assert near.over_limit.endswith("this problem ranks at most 1e-07")


def test_the_largest_error_is_absolute_and_relative_to_the_answer() -> None:
    right = torch.tensor([1.0, -4.0, 0.0])
    for answer, absolute, relative in (
        (right, 0.0, 0.0),
        (torch.tensor([1.0, -4.5, 0.25]), 0.5, 0.125),
        (torch.tensor([1.0, -4.0, torch.nan]), math.inf, math.inf),
        (torch.tensor([1.0, -4.0, torch.inf]), math.inf, math.inf),
    ):
        errors = AnswerErrors().compare([answer], [right])
        assert (errors.absolute, errors.relative) == (absolute, relative)
    odd = torch.tensor([torch.inf, torch.nan])
    assert AnswerErrors().compare([odd], [odd]).absolute == 0.0
    zeros = torch.zeros(2, dtype=torch.int64)
    assert AnswerErrors().compare([zeros + 2], [zeros]).relative == math.inf
    empty = torch.empty(0)
    assert AnswerErrors().compare([empty], [empty]).absolute == 0.0


def test_a_bounded_metric_that_was_not_measured_is_out_of_its_bounds() -> None:
    metrics = read_metrics(LIMITS)
    assert describe_excesses(metrics, {"least_speedup": 0.1, "peak_memory_mib": 8.0}) == ""
    assert describe_excesses(metrics, {}) == "peak_memory_mib was not measured"


@pytest.mark.parametrize("entry", [{"metric": "watts"}, {"metric": "least_speedup", "min": "x"}])
def test_an_unknown_metric_or_bound_is_refused(entry: dict[str, str]) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_metrics([entry])
