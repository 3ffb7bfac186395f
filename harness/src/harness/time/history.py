"""What a machine has measured before: reference kernels, null calls, its own deviation."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import Any

PASSES_MAX = 50
PASSES_MIN = 5
SHAPES_MAX = 64
_VERSION = 1
# Bounds of plausible times and deviations; they also keep the arithmetic finite.
_VALUE_MIN, _VALUE_MAX = 1e-9, 1e12

RecentValues = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class History:
    """The last good passes of one machine: one history per fingerprint of hardware and software.

    `references` are values by kernel and `nulls` the p10 of null calls by shape, newest last;
    `sigma_run` are run-to-run deviations by time, if an operator has measured them. They never come
    from submissions, because a noisy one would make everybody tied. `probes` are those of the first
    good passes and never change, because times are reported in units of that probe.
    """

    references: RecentValues = field(default_factory=dict)
    nulls: RecentValues = field(default_factory=dict)
    probes: tuple[float, ...] = ()
    sigma_run: tuple[tuple[float, float], ...] = ()

    def with_pass(
        self, references: Mapping[str, float], shape: str, null_us: float, probe_us: float = 0.0
    ) -> "History":
        """Return this history with one more good pass; a time of 0 is ignored."""
        recent = dict(self.references)
        for name, value in references.items():
            recent[name] = (*recent.get(name, ()), value)[-PASSES_MAX:]
        nulls = dict(self.nulls)
        if null_us > 0:
            # The most recently used shape goes last, so that unused ones are dropped first.
            nulls[shape] = (*nulls.pop(shape, ()), null_us)[-PASSES_MAX:]
        probes = self.probes
        if probe_us > 0 and len(probes) < PASSES_MIN:
            probes = (*probes, probe_us)
        return replace(self, references=recent, nulls=_keep_newest(nulls), probes=probes)

    @property
    def probe_us(self) -> float | None:
        """The usual time of the platform's fixed work here; None until enough is known."""
        return _median(self.probes)

    def reference_us(self, name: str) -> float | None:
        """Return the rolling median of a reference kernel; None until enough is known."""
        return _median(self.references.get(name, ()))

    def null_us(self, shape: str) -> float | None:
        """Return the rolling median of the null calls' p10; None until enough is known."""
        return _median(self.nulls.get(shape, ()))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a file, at most about 70 kB of text."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, body: Any) -> "History":
        """Return the history from plain values. Raises ValueError for anything else."""
        try:
            _require_version(body["version"])
            references, nulls = (_parse_recent(body[name]) for name in ("references", "nulls"))
            # Files of earlier versions have no probes.
            probes = tuple(map(_parse_positive, body.get("probes", ())[:PASSES_MIN]))
            pairs = [(_parse_positive(time), _parse_positive(sd)) for time, sd in body["sigma_run"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a history of a machine: {str(body)[:200]!r}") from error
        return cls(
            _keep_newest(references), _keep_newest(nulls), probes, tuple(sorted(pairs)[:PASSES_MAX])
        )


def interpolate_sigma(table: Iterable[tuple[float, float]], time_us: float) -> float:
    """Return the run-to-run deviation at a time, by log-linear interpolation."""
    ordered = sorted(table)
    if time_us <= ordered[0][0]:
        return ordered[0][1]
    for (low, sd_low), (high, sd_high) in pairwise(ordered):
        if time_us < high:
            fraction = log(time_us / low) / log(high / low)
            return exp((1 - fraction) * log(sd_low) + fraction * log(sd_high))
    return ordered[-1][1]


def _require_version(version: Any) -> None:
    if version != _VERSION:
        raise ValueError(f"version {version!r} and not {_VERSION}")


def _median(values: tuple[float, ...]) -> float | None:
    return median(values) if len(values) >= PASSES_MIN else None


def _keep_newest(recent: RecentValues) -> dict[str, tuple[float, ...]]:
    return dict(list(recent.items())[-SHAPES_MAX:])


def _parse_recent(body: Mapping[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(map(_parse_positive, values[-PASSES_MAX:])) for name, values in body.items()
    }


def _parse_positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if not _VALUE_MIN <= value <= _VALUE_MAX:
        raise ValueError(f"{value!r} is not between {_VALUE_MIN} and {_VALUE_MAX}")
    return float(value)
