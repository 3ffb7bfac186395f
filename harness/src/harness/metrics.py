"""Metrics beside the time: what a ranked run measures, and the limits that a problem sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

MetricName = Literal[
    "peak_memory_mib",
    "device_memory_mib",
    "least_speedup",
    "max_absolute_error",
    "max_relative_error",
]
ERROR_METRICS: tuple[MetricName, ...] = ("max_absolute_error", "max_relative_error")
METRIC_TEXTS: Mapping[MetricName, str] = {
    "peak_memory_mib": "the peak memory of the largest process, in MiB",
    "device_memory_mib": "the most memory of the device that it held after a call, in MiB",
    "max_absolute_error": "the largest difference from the reference, of all public checks",
    "max_relative_error": "that difference as a share of the reference's largest magnitude",
    "least_speedup": "the least speed-up over the yardstick, of all public timed cases",
}


@dataclass(frozen=True)
class Metric:
    """A metric that a problem shows; with `least` or `most`, a rank needs it to be in bounds."""

    name: MetricName
    least: float | None = None
    most: float | None = None

    def describe_excess(self, value: float) -> str:
        """Return in words how a value is out of bounds, "" if it is not.

        >>> Metric("peak_memory_mib", most=512.0).describe_excess(600.0)
        'peak_memory_mib is 600, and this problem ranks at most 512'
        >>> Metric("least_speedup", least=1.0).describe_excess(1.0)
        ''
        """
        for bound, word, is_out in (
            (self.least, "at least", self.least is not None and value < self.least),
            (self.most, "at most", self.most is not None and value > self.most),
        ):
            if is_out:
                return f"{self.name} is {value:.6g}, and this problem ranks {word} {bound:g}"
        return ""


def read_metrics(entries: Sequence[Mapping[str, Any]]) -> tuple[Metric, ...]:
    """Return the metrics of a manifest. Raises KeyError, TypeError or ValueError."""
    metrics = []
    for entry in entries:
        name = entry["metric"]
        if name not in METRIC_TEXTS:
            raise ValueError(f"unknown metric {name!r}: there are {', '.join(METRIC_TEXTS)}")
        least, most = entry.get("min"), entry.get("max")
        for bound in (least, most):
            if bound is not None and not isfinite(bound):
                raise ValueError(f"a bound of {name} is {bound}")
        metrics.append(Metric(name, least, most))
    return tuple(metrics)


def describe_excesses(metrics: Sequence[Metric], values: Mapping[str, float]) -> str:
    """Return in words which metrics are out of bounds, "" if none is.

    One that could not be measured is out of its bounds, too.
    """
    excesses = []
    for metric in metrics:
        if metric.name in values:
            excesses.append(metric.describe_excess(values[metric.name]))
        elif metric.least is not None or metric.most is not None:
            excesses.append(f"{metric.name} was not measured")
    return "; ".join(filter(None, excesses))
