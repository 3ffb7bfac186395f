"""Reads files that a run produces: the samples of its timed cases, and tables of a profiler."""

import gzip
import io
import math
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.errors import Failed
from shared.presentation.units import one_line

SAMPLES = "samples.json.gz"
# The ending of the tables that torch's profiler writes.
TABLE = "-table.txt"
TABLE_LINES_MAX = 200
_NAME_HEADING, _CALLS_HEADING = "Name", "# of Calls"
# The time of a kernel itself: the GPU's where there is one.
_TIME_HEADINGS = ("Self CUDA", "Self device", "Self CPU")
_COLUMN_GAP = re.compile(r"\s{2,}")
# What cuobjdump prints about the GPU kernels of a submission.
KERNELS = "kernels.txt"
# Their code, where there is any.
KERNEL_CODES = ("kernels.ptx", "kernels.sass")
KERNELS_BYTES_MAX = 1024**2
KERNEL_CHARS_MAX = 60
_USAGE = re.compile(
    r"^ *Function (?P<kernel>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) "
    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)",
    re.MULTILINE,
)


# Calls with one of these flags do not count (docs/samples.md).
_DROPPED = frozenset({"cold", "repeated", "spot", "waited", "dry"})


class CaseSamples(NamedTuple):
    """The counted calls of a timed case, by the process that made them. Units: microseconds."""

    name: str
    processes: Sequence[Sequence[float]]

    @property
    def times_us(self) -> list[float]:
        """The times of all processes."""
        return [time_us for times_us in self.processes for time_us in times_us]


class _Samples(msgspec.Struct):
    time_us: list[float]
    flags: dict[str, list[str]] = {}

    @property
    def counted_us(self) -> list[float]:
        counted = [
            time_us
            for slot, time_us in enumerate(self.time_us)
            if _DROPPED.isdisjoint(self.flags.get(str(slot), ()))
        ]
        # If nothing else is left, all calls count.
        return counted or self.time_us


class _Pair(msgspec.Struct):
    submission: _Samples = msgspec.field(name="A")


class _Process(msgspec.Struct):
    pairs: list[_Pair]

    @property
    def counted_us(self) -> list[float]:
        return [time_us for pair in self.pairs for time_us in pair.submission.counted_us]


class _Case(msgspec.Struct):
    processes: list[_Process]


class _SamplesFile(msgspec.Struct):
    cases: dict[str, _Case]


def read_samples(packed: bytes, bytes_max: int) -> list[CaseSamples]:
    """Return the counted calls of each timed case from a file of samples.

    Raises `Failed` if it cannot be read or has more than `bytes_max` unpacked.
    """
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            samples = msgspec.json.decode(file.read(bytes_max), type=_SamplesFile)
    except (OSError, EOFError, zlib.error, ValueError, msgspec.MsgspecError) as error:
        raise Failed(f"the samples cannot be read: {type(error).__name__} {error}") from error
    cases = []
    for name, case in samples.cases.items():
        processes = [process.counted_us for process in case.processes]
        cases.append(CaseSamples(name, [times_us for times_us in processes if times_us]))
    return [case for case in cases if case.processes]


def slow(values: Sequence[float]) -> float:
    """Return the 99th percentile, where a chart ends so that one slow call does not flatten it."""
    return sorted(values)[min(len(values) - 1, math.ceil(0.99 * len(values)) - 1)]


def counts(values: Sequence[float], low: float, high: float, bins: int) -> list[int]:
    """Count the values in each bin from the lowest to the highest.

    >>> counts([1.0, 1.0, 2.0, 9.0], 1.0, 2.0, 2)
    [2, 1]
    """
    bin_counts = [0] * bins
    for value in values:
        if value <= high:
            part = (value - low) / (high - low) if high > low else 0.0
            bin_counts[min(int(part * bins), bins - 1)] += 1
    return bin_counts


class KernelTime(NamedTuple):
    """A row of a profiler's table: the time of a kernel itself, as text, and its calls."""

    kernel: str
    self_time: str
    calls: str


def read_kernel_times(table: bytes) -> list[KernelTime]:
    """Return the rows of a table written by torch's profiler; none for any other text.

    >>> read_kernel_times(b"  Name    Self CPU    # of Calls  \\n aten::mm    33.2ms    1  \\n")
    [KernelTime(kernel='aten::mm', self_time='33.2ms', calls='1')]
    """
    headings: list[str] = []
    rows = []
    for line in table.decode(errors="replace").splitlines()[:TABLE_LINES_MAX]:
        cells = _COLUMN_GAP.split(line.strip())
        if _NAME_HEADING in cells and _CALLS_HEADING in cells:
            headings = cells
        elif headings and len(cells) == len(headings) and not line.startswith("---"):
            row = dict(zip(headings, cells, strict=True))
            self_time = next((row[column] for column in _TIME_HEADINGS if column in row), "")
            rows.append(KernelTime(row[_NAME_HEADING], self_time, row[_CALLS_HEADING]))
    return rows


class KernelUsage(NamedTuple):
    """What a compiled GPU kernel uses: registers per thread, and bytes of memory.

    `stack_bytes` and `local_bytes` are of each thread, for spilled registers and for arrays.
    """

    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    local_bytes: int

    @property
    def private_bytes(self) -> int:
        """The memory of each thread beside its registers."""
        return self.stack_bytes + self.local_bytes

    @property
    def line(self) -> str:
        """Return it in words.

        >>> KernelUsage("axpy", 14, 0, 8, 0).line
        'axpy: 14 registers, 0 B shared, 8 B spilled or on the stack'
        """
        return (
            f"{one_line(self.kernel, KERNEL_CHARS_MAX)}: {self.registers} registers, "
            f"{self.shared_bytes:,} B shared, {self.private_bytes:,} B spilled or on the stack"
        )


def read_kernel_usage(text: bytes) -> list[KernelUsage]:
    """Return the kernels in the text of `kernels.txt`, each once; none for any other text.

    >>> text = b" Function axpy:\\n  REG:14 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:912\\n"
    >>> [usage.registers for usage in read_kernel_usage(text + text)]
    [14]
    """
    names = ("registers", "shared", "stack", "local")
    usages = (
        KernelUsage(match["kernel"], *(int(match[name]) for name in names))
        for match in _USAGE.finditer(text.decode(errors="replace"))
    )
    return list(dict.fromkeys(usages))
