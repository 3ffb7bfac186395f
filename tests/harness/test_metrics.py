"""What a run measures besides its times, and whether it is in a problem's bounds."""

import pytest

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


def test_a_bounded_metric_that_was_not_measured_is_out_of_its_bounds() -> None:
    metrics = read_metrics(LIMITS)
    assert describe_excesses(metrics, {"least_speedup": 0.1, "peak_memory_mib": 8.0}) == ""
    assert describe_excesses(metrics, {}) == "peak_memory_mib was not measured"


@pytest.mark.parametrize("entry", [{"metric": "watts"}, {"metric": "least_speedup", "min": "x"}])
def test_an_unknown_metric_or_bound_is_refused(entry: dict[str, str]) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_metrics([entry])
