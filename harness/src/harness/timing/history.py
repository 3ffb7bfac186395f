"""What a machine has shown before: its reference kernels, its null calls, its own deviation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import Any

PASSES_MAX = 50
PASSES_MIN = 5
SHAPES_MAX = 64
_VERSION = 1
# Beyond these no machine has a time in microseconds or a deviation, and arithmetic has its limits.
_LEAST, _MOST = 1e-9, 1e12

Recent = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class History:
    """The last good passes of one machine; one fingerprint of hardware and software, one history.

    `references` are values by kernel and `nulls` the p10 of null calls by shape, newest last;
    `sigma_run` are measured run-to-run deviations by time, where an operator has measured them.
    They never come from submissions, for a noisy one would make everybody tied. `probes` are those
    of the first good passes and stay, for times are told in the units of that probe.
    """

    references: Recent = field(default_factory=dict)
    nulls: Recent = field(default_factory=dict)
    probes: tuple[float, ...] = ()
    sigma_run: tuple[tuple[float, float], ...] = ()

    def with_pass(
        self, references: Mapping[str, float], shape: str, null_us: float, probe_us: float = 0.0
    ) -> "History":
        """This history and one more good pass; a time of zero stands for none."""
        kept = dict(self.references)
        for name, value in references.items():
            kept[name] = (*kept.get(name, ()), value)[-PASSES_MAX:]
        nulls = dict(self.nulls)
        if null_us > 0:
            # The shape that was used last goes last, so that the forgotten ones go first.
            nulls[shape] = (*nulls.pop(shape, ()), null_us)[-PASSES_MAX:]
        probes = self.probes
        if probe_us > 0 and len(probes) < PASSES_MIN:
            probes = (*probes, probe_us)
        return replace(self, references=kept, nulls=_newest(nulls), probes=probes)

    @property
    def probe_us(self) -> float | None:
        """What the platform's fixed work takes on this machine; None until enough is known."""
        return _median(self.probes)

    def reference_us(self, name: str) -> float | None:
        """The rolling median of a reference kernel; None until enough is known."""
        return _median(self.references.get(name, ()))

    def null_us(self, shape: str) -> float | None:
        """The rolling median of the null calls' p10; None until enough is known."""
        return _median(self.nulls.get(shape, ()))

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file, at most about 70 kB of text."""
        return {
            "version": _VERSION,
            "references": {name: list(values) for name, values in self.references.items()},
            "nulls": {shape: list(values) for shape, values in self.nulls.items()},
            "probes": list(self.probes),
            "sigma_run": [list(pair) for pair in self.sigma_run],
        }

    @classmethod
    def from_json(cls, body: Any) -> "History":
        """The history in plain values. Errors: ValueError for anything else."""
        try:
            _require_version(body["version"])
            references, nulls = (_recent(body[name]) for name in ("references", "nulls"))
            # Files of earlier versions have none.
            probes = tuple(map(_positive, body.get("probes", ())[:PASSES_MIN]))
            pairs = [(_positive(time), _positive(sd)) for time, sd in body["sigma_run"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a history of a machine: {str(body)[:200]!r}") from error
        return cls(_newest(references), _newest(nulls), probes, tuple(sorted(pairs)[:PASSES_MAX]))


def sigma_at(table: Iterable[tuple[float, float]], time_us: float) -> float:
    """The run-to-run deviation at a time, by straight lines in logarithms between known times.

    >>> round(sigma_at([(10.0, 0.04), (1000.0, 0.01)], 100.0), 4)
    0.02
    """
    ordered = sorted(table)
    if time_us <= ordered[0][0]:
        return ordered[0][1]
    for (low, sd_low), (high, sd_high) in pairwise(ordered):
        if time_us < high:
            part = log(time_us / low) / log(high / low)
            return exp((1 - part) * log(sd_low) + part * log(sd_high))
    return ordered[-1][1]


def _require_version(version: Any) -> None:
    if version != _VERSION:
        raise ValueError(f"version {version!r} and not {_VERSION}")


def _median(values: tuple[float, ...]) -> float | None:
    return median(values) if len(values) >= PASSES_MIN else None


def _newest(recent: Recent) -> dict[str, tuple[float, ...]]:
    return dict(list(recent.items())[-SHAPES_MAX:])


def _recent(body: Mapping[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(map(_positive, values[-PASSES_MAX:])) for name, values in body.items()}


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    if not _LEAST <= value <= _MOST:
        raise ValueError(f"{value!r} is not between {_LEAST} and {_MOST}")
    return float(value)
