"""What a profiler's table says of kernels: the slowest, in short."""

import re

from shared.telling.units import one_line

ROWS_MAX = 8
LINES_MAX = 200
NAME_MAX = 32
NAME, CALLS = "Name", "# of Calls"
# The time of a kernel itself: the GPU's where there is one.
TIMES = ("Self CUDA", "Self device", "Self CPU")
_APART = re.compile(r"\s{2,}")


def kernel_lines(table: bytes) -> list[str]:
    """The first rows of a table as torch's profiler writes it; none of what is no such table.

    >>> kernel_lines(b"  Name    Self CPU    # of Calls  \\n aten::mm    33.2ms    1  \\n")
    ['kernel    self time  calls', 'aten::mm     33.2ms      1']
    """
    lines = table.decode(errors="replace").splitlines()[:LINES_MAX]
    heads: list[str] = []
    rows: list[tuple[str, str, str]] = []
    for line in lines:
        cells = _APART.split(line.strip())
        if NAME in cells and CALLS in cells:
            heads = cells
        elif heads and len(cells) == len(heads) and not line.startswith("---"):
            rows.append(_row(dict(zip(heads, cells, strict=True))))
    if not rows:
        return []
    shown = [("kernel", "self time", "calls"), *rows[:ROWS_MAX]]
    widths = [max(len(row[n]) for row in shown) for n in range(3)]
    return [
        f"{name.ljust(widths[0])}  {took.rjust(widths[1])}  {calls.rjust(widths[2])}"
        for name, took, calls in shown
    ]


def _row(told: dict[str, str]) -> tuple[str, str, str]:
    took = next((told[name] for name in TIMES if name in told), "")
    return one_line(told[NAME], NAME_MAX), one_line(took, 12), one_line(told[CALLS], 8)
