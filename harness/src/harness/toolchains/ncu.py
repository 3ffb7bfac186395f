"""NVIDIA's kernel profiler: its command lines, and whether it captured anything."""

import csv
from collections.abc import Sequence

REPORT_SUFFIX = ".ncu-rep"
KERNELS_MAX = 20
_PAGES = {"details.txt": ("details", ()), "raw.csv": ("raw", ("--csv",))}
_NO_NUMBERS = ("", "n/a", "nan", "-nan")


class EmptyCapture(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The profiler ran and measured nothing."""


def command(report: str, program: Sequence[str]) -> tuple[str, ...]:
    """Runs a program under ncu, which writes `report` and its suffix.

    Errors of ncu show in its output and its exit status; ERR_NVGPUCTRPERM means that the operator
    has not allowed performance counters to accounts other than root.
    """
    return (
        "ncu",
        "--config-file=off",
        "--target-processes=all",
        "--set=full",
        "--import-source=yes",
        "--clock-control=none",
        f"--launch-count={KERNELS_MAX}",
        "--force-overwrite",
        f"--export={report}",
        *program,
    )


def pages(report: str) -> dict[str, tuple[str, ...]]:
    """The command line of each page of a report, by the name of the file it becomes.

    A report is made by an untrusted process: it is read in a box, never by the supervisor.
    """
    source = f"--import={report}{REPORT_SUFFIX}"
    return {name: ("ncu", source, f"--page={page}", *more) for name, (page, more) in _PAGES.items()}


def require_capture(raw: str) -> int:
    """How many kernels a raw page tells of.

    Errors: EmptyCapture, if there is none, or none has a number.

    >>> require_capture('"ID","Kernel Name","gpu__time_duration.sum"\\n"","","us"\\n"0","k","5.1"')
    1
    """
    lines = [line for line in raw.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]
    if not rows:
        raise EmptyCapture("the profile is empty: no kernel was profiled")
    if not any(_is_measured(row) for row in rows):
        raise EmptyCapture("the profile is empty: no metric of a kernel has a value")
    return len(rows)


def _is_measured(row: dict[str, str]) -> bool:
    metrics = [value for name, value in row.items() if name and "__" in name]
    return any(value is not None and value.lower() not in _NO_NUMBERS for value in metrics)
