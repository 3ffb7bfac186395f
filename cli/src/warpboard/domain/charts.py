"""Charts as plain data, and as lines of text: progress over time, and how samples are spread."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import median

from warpboard.domain.units import one_line, time_text, when

WIDTH, HEIGHT = 64, 14
LABEL = 10
BINS = 48
BLOCKS = " ▁▂▃▄▅▆▇█"
CASES_MAX = 24
# Beyond this many times the best, times are drawn on a scale of ratios.
RATIO_LINEAR_MAX = 8.0


@dataclass(frozen=True)
class Point:
    """A time, when it was reached, and by which submission."""

    at: datetime
    time_us: float
    number: int = 0


@dataclass(frozen=True)
class Progress:
    """The record of a leaderboard as it fell, and somebody's own submissions."""

    title: str
    records: Sequence[Point]
    own: Sequence[Point] = ()
    owner: str = ""
    until_at: datetime | None = None

    @property
    def last_at(self) -> datetime:
        """Until when it is drawn: a record stands until now."""
        ends = [one.at for one in (*self.records, *self.own)]
        return max([*ends, self.until_at] if self.until_at else ends)

    @property
    def times_us(self) -> list[float]:
        """All times that are drawn."""
        return [one.time_us for one in (*self.records, *self.own)]

    @property
    def is_ratio(self) -> bool:
        """Whether the times differ so much that ratios are drawn."""
        return max(self.times_us) > RATIO_LINEAR_MAX * min(self.times_us) > 0


@dataclass(frozen=True)
class Spread:
    """The times of single calls, case by case."""

    title: str
    cases: Sequence[tuple[str, Sequence[float]]]


def progress_lines(chart: Progress, zone: tzinfo | None = None) -> Iterator[str]:
    """A progress chart as text: records as a line of steps, own submissions as circles."""
    yield chart.title
    if not chart.times_us:
        yield "nothing is ranked yet"
        return
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    spots = (*chart.records, *chart.own)
    begin, end = min(one.at for one in spots), chart.last_at
    low, high = min(chart.times_us), max(chart.times_us)
    _steps(grid, [(_x(one.at, begin, end), _y(one.time_us, chart)) for one in chart.records])
    for one in chart.own:
        grid[_y(one.time_us, chart)][_x(one.at, begin, end)] = "o"
    labels = {_y(one, chart): time_text(one) for one in (low, high)}
    for row, cells in enumerate(grid):
        yield f"{labels.get(row, ''):>{LABEL}} ┤{''.join(cells).rstrip()}"
    first, last = when(begin, zone), when(end, zone)
    yield " " * LABEL + " └" + "─" * WIDTH
    yield " " * (LABEL + 2) + first + (f"{last:>{WIDTH - len(first)}}" if end > begin else "")
    own = f", o {chart.owner}" if chart.own else ""
    yield " " * (LABEL + 2) + f"━ the record{own}{', scale of ratios' if chart.is_ratio else ''}"


def _x(at: datetime, begin: datetime, end: datetime) -> int:
    whole = (end - begin).total_seconds()
    return round((at - begin).total_seconds() / whole * (WIDTH - 1)) if whole else 0


def _y(time_us: float, chart: Progress) -> int:
    """The row of a time; the slowest is on top."""
    low, high = min(chart.times_us), max(chart.times_us)
    if high == low:
        return HEIGHT // 2
    part = (
        math.log(time_us / low) / math.log(high / low)
        if chart.is_ratio
        else (time_us - low) / (high - low)
    )
    return round((1 - part) * (HEIGHT - 1))


def _steps(grid: list[list[str]], spots: Sequence[tuple[int, int]]) -> None:
    """The record stands until the next one comes."""
    for index, (x, y) in enumerate(spots):
        until = spots[index + 1][0] if index + 1 < len(spots) else WIDTH
        for column in range(x, until):
            grid[y][column] = "━"
        if index + 1 < len(spots):
            for row in range(y, spots[index + 1][1]):
                grid[row][min(until, WIDTH - 1)] = "┃"


def spread_lines(chart: Spread) -> Iterator[str]:
    """How samples are spread, as text: a line of blocks for each case, from its fastest call."""
    yield chart.title
    shown = chart.cases[:CASES_MAX]
    width = min(max((len(name) for name, _ in shown), default=0), 40)
    for name, values in shown:
        low, high = min(values), slow(values)
        bars = histogram(values, low, high)
        over = sum(one > high for one in values)
        tail = f", {over} slower" if over else ""
        yield (
            f"{one_line(name, 40):<{width}}  {time_text(low):>9} ▕{bars}▏ {time_text(high):<9} "
            f"median {time_text(median(values))}, {len(values):,} calls{tail}"
        )
    if len(chart.cases) > CASES_MAX:
        yield f"… {len(chart.cases) - CASES_MAX} more cases"


def slow(values: Sequence[float]) -> float:
    """Where a chart of samples ends: at the 99th of 100, so that one call does not flatten it."""
    return sorted(values)[min(len(values) - 1, math.ceil(0.99 * len(values)) - 1)]


def counts(values: Sequence[float], low: float, high: float, bins: int = BINS) -> list[int]:
    """How many values are in each of the bins from the lowest to the highest.

    >>> counts([1.0, 1.0, 2.0, 9.0], 1.0, 2.0, 2)
    [2, 1]
    """
    found = [0] * bins
    for one in values:
        if one <= high:
            part = (one - low) / (high - low) if high > low else 0.0
            found[min(int(part * bins), bins - 1)] += 1
    return found


def histogram(values: Sequence[float], low: float, high: float) -> str:
    """Values as a line of blocks; what is there is never drawn as nothing."""
    found = counts(values, low, high)
    most = max(found)
    return "".join(BLOCKS[math.ceil(one / most * (len(BLOCKS) - 1))] for one in found)
