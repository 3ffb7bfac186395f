"""What a benchmark found: figures beside their goals, printed and left for `python -m bench`."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.intervals import Interval

# Where `python -m bench` wants the figures of a benchmark that it runs.
FILE = "WARPBOARD_BENCH_FIGURES"


class Goal(msgspec.Struct, frozen=True):
    """What a figure should be: at most a bound, or at least."""

    bound: float
    is_most: bool

    def is_met(self, measured: float) -> bool:
        """Whether a measured value is within the goal."""
        return measured <= self.bound if self.is_most else measured >= self.bound

    def __str__(self) -> str:
        """The goal as it is printed."""
        return f"{'at most' if self.is_most else 'at least'} {self.bound:g}"


def at_most(bound: float) -> Goal:
    """A goal that larger values miss."""
    return Goal(bound, is_most=True)


def at_least(bound: float) -> Goal:
    """A goal that smaller values miss."""
    return Goal(bound, is_most=False)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value, with its interval where it varies by chance.

    `is_held` means that it does not depend on the machine: a run that misses its goal fails.
    `note` says in a sentence why a goal is missed.
    """

    name: str
    measured: float
    unit: str = ""
    goal: Goal | None = None
    is_held: bool = False
    interval: Interval | None = None
    note: str = ""

    @property
    def value(self) -> str:
        """The measured value as it is printed, with its unit and interval."""
        parts = (f"{self.measured:.4g}", self.unit, str(self.interval or ""))
        return " ".join(part for part in parts if part)

    @property
    def is_met(self) -> bool:
        """Whether the goal, if there is one, is met."""
        return self.goal is None or self.goal.is_met(self.measured)

    @property
    def is_broken(self) -> bool:
        """Whether a run with this figure fails."""
        return self.is_held and not self.is_met

    def __str__(self) -> str:
        """The figure as it is printed."""
        text = f"{self.name}: {self.value}"
        if self.goal is None:
            return text
        return f"{text} (goal: {self.goal}{'' if self.is_met else ', missed'})"


def report(figures: Sequence[Figure]) -> None:
    """Print figures and leave them for `python -m bench`.

    Errors: SystemExit if one that does not depend on the machine misses its goal.
    """
    print(*figures, sep="\n", flush=True)
    wanted = os.environ.get(FILE)
    if wanted:
        Path(wanted).write_bytes(msgspec.json.encode(list(figures)))
    broken = [figure for figure in figures if figure.is_broken]
    if broken:
        raise SystemExit("\n".join(f"broken: {figure}" for figure in broken))


def read(path: Path) -> list[Figure] | None:
    """Return the figures that a benchmark left, none of them if it was skipped.

    None means that it left no file.
    """
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=list[Figure])
