"""Hidden sizes: the family that a problem declares, and the cases that a run draws from it.

The sizes of a run follow from its key alone, so that whoever may read the key can draw them again.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, floor, inf, log
from typing import Any, Literal

from harness.vocabulary import MODES, STAGES

# Which cases a family adds to: those of the hidden check, or the timed ones.
Group = Literal["tests", "benchmarks"]
GROUPS: tuple[Group, ...] = ("tests", "benchmarks")
COUNT_MAX = 16
_UNIT = 2.0**64


@dataclass(frozen=True)
class Range:
    """The integers `start`, `start + step` and so on, up to `stop`; with `is_log`, evenly by ratio.

    Raises ValueError for a range that holds nothing, or that cannot be logarithmic.
    """

    start: int
    stop: int
    step: int = 1
    is_log: bool = False

    def __post_init__(self) -> None:
        if self.step < 1 or self.stop < self.start:
            raise ValueError(f"nothing is from {self.start} to {self.stop} in steps of {self.step}")
        if self.is_log and self.start < 1:
            raise ValueError(f"a logarithmic range starts at 1 or above, not at {self.start}")

    @property
    def last(self) -> int:
        """The largest value of the range."""
        return self.start + (self.stop - self.start) // self.step * self.step

    def at(self, share: float) -> int:
        """Return the value at a share of the range, from 0 to below 1.

        >>> [Range(16, 64, 16).at(share) for share in (0.0, 0.3, 0.99)]
        [16, 32, 64]
        >>> [Range(1, 1024, is_log=True).at(share) for share in (0.0, 0.5, 0.999)]
        [1, 32, 1017]
        """
        if self.is_log:
            low, high = log(self.start), log(self.last + self.step)
            index = floor((exp(low + share * (high - low)) - self.start) / self.step)
        else:
            index = floor(share * ((self.last - self.start) // self.step + 1))
        return min(self.start + max(0, index) * self.step, self.last)


# What an argument may be: an integer of a range, or one of several values.
Choices = Range | tuple[Any, ...]


@dataclass(frozen=True)
class HiddenFamily:
    """The sizes that a run draws `count` cases from; `weight` is that of each one in the score."""

    group: Group
    count: int
    args: Mapping[str, Choices]
    weight: float = 1.0

    def draw(self, key: bytes) -> list[dict[str, Any]]:
        """Return the arguments of each case of the run with this key.

        Each argument is drawn once from each of `count` equal parts of its choices, in an order of
        its own. So every run has small and large sizes, and the scores of two runs differ less by
        what was drawn.
        """
        columns = {name: self._draw_argument(key, name) for name in self.args}
        return [
            {name: column[index] for name, column in columns.items()} for index in range(self.count)
        ]

    def corners(self) -> list[dict[str, Any]]:
        """Return the arguments at the start and at the end of all choices."""
        ends = (0.0, 1.0 - 1.0 / _UNIT**0.5)
        corners = [
            {name: _choose(choices, share) for name, choices in self.args.items()} for share in ends
        ]
        return corners if corners[0] != corners[1] else corners[:1]

    def _draw_argument(self, key: bytes, name: str) -> list[Any]:
        def uniform(purpose: str, index: int) -> float:
            message = f"hidden|{self.group}|{name}|{purpose}|{index}".encode()
            digest = hmac.new(key, message, hashlib.sha256).digest()
            # 53 bits, so that the quotient is below 1.
            return (int.from_bytes(digest[:8], "little") >> 11 << 11) / _UNIT

        parts = sorted(range(self.count), key=lambda index: uniform("order", index))
        return [
            _choose(self.args[name], (part + uniform("value", index)) / self.count)
            for index, part in enumerate(parts)
        ]


def _choose(choices: Choices, share: float) -> Any:
    if isinstance(choices, Range):
        return choices.at(min(share, 1.0 - 1e-12))
    return choices[min(int(share * len(choices)), len(choices) - 1)]


def read_family(group: Group, entry: Mapping[str, Any]) -> HiddenFamily:
    """Return the family of a manifest's entry.

    Raises KeyError, TypeError or ValueError if it is not one.

    >>> family = read_family("tests", {"count": 2, "args": {"size": {"from": 1, "to": 9}, "k": 3}})
    >>> family.corners()
    [{'size': 1, 'k': 3}, {'size': 9, 'k': 3}]
    """
    count, weight = int(entry["count"]), float(entry.get("weight", 1.0))
    if not 1 <= count <= COUNT_MAX:
        raise ValueError(f"{count} hidden {group}, not 1 to {COUNT_MAX}")
    if not 0 < weight < inf:
        raise ValueError(f"the hidden {group} have the weight {weight}, not a positive number")
    args = {name: _read_choices(value) for name, value in entry["args"].items()}
    return HiddenFamily(group, count, args, weight)


def _read_choices(value: Any) -> Choices:
    if isinstance(value, dict):
        is_log = value.get("scale", "linear") == "log"
        return Range(int(value["from"]), int(value["to"]), int(value.get("step", 1)), is_log)
    if isinstance(value, list):
        if not value:
            raise ValueError("an argument has no choices")
        return tuple(value)
    return (value,)


def hidden_case_name(group: Group, number: int) -> str:
    """Return the name of a run's hidden case, which tells nothing of it.

    >>> hidden_case_name("benchmarks", 2)
    'hidden benchmark 2'
    """
    return f"hidden {group.removesuffix('s')} {number}"


def describe_choices(value: Any) -> str:
    """Return in words what an argument in a manifest's family may be.

    >>> describe_choices({"from": 16, "to": 64, "step": 16, "scale": "log"})
    '16 to 64 in steps of 16, small ones as often as large ones'
    >>> describe_choices(["float16", "bfloat16"]), describe_choices(3)
    ('float16, bfloat16', '3')
    """
    if not isinstance(value, dict):
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    step = f" in steps of {value['step']}" if value.get("step", 1) != 1 else ""
    scale = ", small ones as often as large ones" if value.get("scale") == "log" else ""
    return f"{value['from']} to {value['to']}{step}{scale}"


def draws_hidden_sizes(mode: str) -> bool:
    """Return whether a run of a mode draws cases that nobody may see.

    >>> draws_hidden_sizes("ranked"), draws_hidden_sizes("benchmark")
    (True, False)
    """
    return any(STAGES[stage].is_hidden for stage in MODES[mode].stages)
