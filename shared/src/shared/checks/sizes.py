"""What smaller sizes of a timed case say of a size that this machine cannot hold.

A lazy answer is nearer to the right one where answers are small or vary little, which may depend on
the size of the case. How far a check lets a right answer move to a lazy one is its share: at 1 the
lazy answer is accepted. The growth of a share from one size to the next is continued to the ranked
size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.checks.findings import create_finding
from shared.problems.report import Finding

SIZE_MIN = 16
# The largest size of the smallest variant of a case.
_SMALL_SIZE = 64
# From one variant to the next, all sizes grow by this factor.
STEP = 4
# Doubled sizes make answers vary less, or smaller, by the volume of three dimensions at most.
_GROWTH_MAX = 8.0
# Arguments of a generator that are not sizes.
_NOT_SIZES = ("seed", "world_size", "rank")
_FIX = "tighten the tolerance, so that it scales with the answer"


@dataclass(frozen=True)
class Measurement:
    """Holds the share of each lazy answer by name; all sizes are divided by `factor`."""

    factor: int
    shares: Mapping[str, float]
    codes: Mapping[str, str]


def read_measurement(factor: int, shares: Mapping[str, Any]) -> Measurement:
    """Return a measurement from the shares of a case in a report of the harness."""
    return Measurement(
        factor,
        {name: lazy["share"] for name, lazy in shares.items()},
        {name: lazy["code"] for name, lazy in shares.items()},
    )


def variant_factors(factor: int) -> list[int]:
    """Return the factors of the variants of a case, from the smallest variant to the case itself.

    >>> variant_factors(32), variant_factors(1)
    ([128, 32, 8, 2, 1], [16, 4, 1])
    """
    first = max(STEP**2, STEP * factor)
    factors = []
    while first > 1:
        factors.append(first)
        first //= STEP
    return [*factors, 1]


def argument_factor(args: Mapping[str, Any]) -> int:
    """Return by which power of two the sizes among a generator's arguments are divided.

    >>> argument_factor({"size": 4096, "kind": "a", "seed": 123456}), argument_factor({"n": 3})
    (64, 1)
    """
    largest = max(_sizes(args).values(), default=0)
    return 1 << max(0, math.ceil(math.log2(max(1, largest) / _SMALL_SIZE)))


def divide_arguments(args: Mapping[str, Any], factor: int) -> dict[str, Any]:
    """Return the arguments of a generator with all sizes divided, but not below 16.

    >>> divide_arguments({"size": 4096, "parts": 4, "seed": 123456}, 64)
    {'size': 64, 'parts': 4, 'seed': 123456}
    """
    sizes = _sizes(args).items()
    return {**args} | {name: max(SIZE_MIN, -(-size // factor)) for name, size in sizes}


def _sizes(args: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: value
        for name, value in args.items()
        if type(value) is int and value > SIZE_MIN and name not in _NOT_SIZES
    }


def predict_shares(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Return the shares at the ranked size, from those of growing sizes; they may exceed 1.

    >>> predict_shares([Measurement(16, {"zeros": 0.01}, {}), Measurement(4, {"zeros": 0.04}, {})])
    {'zeros': 0.16}
    """
    *smaller, largest = measurements
    predicted = {}
    for name, share in largest.shares.items():
        growth = 1.0
        if smaller and (before := smaller[-1].shares.get(name)):
            doublings = math.log2(smaller[-1].factor / largest.factor)
            growth = min(_GROWTH_MAX, max(1.0, (share / before) ** (1 / doublings)))
        predicted[name] = share * growth ** math.log2(largest.factor)
    return predicted


def size_findings(where: str, measurements: Sequence[Measurement], formula: str) -> list[Finding]:
    """Return the lazy answers that a check would accept at a ranked size, and how that is known.

    `measurements` are of growing sizes, the last possibly of the ranked size itself. `formula` says
    what is known of the form of the check.
    """
    known = f"; {formula}" if formula else ""
    if not measurements:
        text = "this machine holds neither it nor a smaller size of it: try lazy answers elsewhere"
        return [create_finding("not_inspected", "warning", where, f"{text}{known}")]
    predicted, largest = predict_shares(measurements), measurements[-1]
    accepted: dict[str, list[str]] = {}
    for name, share in predicted.items():
        if share >= 1:
            accepted.setdefault(largest.codes[name], []).append(name)
    basis = " and ".join(f"1/{each.factor}" for each in measurements[-2:])
    is_held = largest.factor == 1
    reason = "" if is_held else f", judged by {basis} of its sizes, as this machine cannot hold it"
    findings = [
        create_finding(code, "error", where, f"it accepts {' and '.join(names)}{reason}: {_FIX}")
        for code, names in accepted.items()
    ]
    if not is_held and not findings:
        nearest = max(predicted, key=lambda name: predicted[name], default="")
        share = predicted.get(nearest, 0.0)
        near = f": a right answer may move {share:.2g} of the way to {nearest}" if nearest else ""
        text = f"judged by {basis} of its sizes, as this machine cannot hold it{near}{known}"
        findings.append(create_finding("not_inspected", "warning", where, text))
    return findings


def late_finding(where: str, count: int, formula: str) -> Finding:
    """Return a warning that there was no time to try `count` cases; the first is at `where`."""
    more = f" (and of {count - 1} more cases)" if count > 1 else ""
    text = f"there was no time to try smaller sizes of it{more}: try lazy answers elsewhere"
    known = f"; {formula}" if formula else ""
    return create_finding("not_inspected", "warning", where, f"{text}{known}")
