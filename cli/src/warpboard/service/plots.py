"""Draw the progress of a leaderboard, and the spread of a submission's samples."""

import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from shared.api.leaderboards import History, Records
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import instant_text, one_line, time_text
from warpboard.domain.exit_codes import OK
from warpboard.service.accounts import resolve_name
from warpboard.service.leaderboards import LeaderboardQuery, resolve_gpus
from warpboard.service.ports import Api, Disk, Screen

WIDTH, HEIGHT = 64, 14
LABEL = 10
BINS = 48
BLOCKS = " ▁▂▃▄▅▆▇█"
CASES_MAX = 24
# If the slowest time is more than this many times the best, the scale is logarithmic.
RATIO_LINEAR_MAX = 8.0
SAMPLES = "samples.json.gz"
PACKED_BYTES_MAX = 64 * 1024 * 1024
BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True)
class Point:
    """A time, when it was reached, and by which submission."""

    at: datetime
    time_us: float
    number: int = 0


@dataclass(frozen=True)
class Progress:
    """The record times of a leaderboard, and a participant's own submissions."""

    title: str
    records: Sequence[Point]
    own: Sequence[Point] = ()
    owner: str = ""
    until_at: datetime | None = None

    @property
    def last_at(self) -> datetime:
        """The end of the time axis: a record stands until now."""
        ends = [point.at for point in (*self.records, *self.own)]
        return max([*ends, self.until_at] if self.until_at else ends)

    @property
    def times_us(self) -> list[float]:
        """All times in the chart."""
        return [point.time_us for point in (*self.records, *self.own)]

    @property
    def is_ratio(self) -> bool:
        """Whether the times differ so much that the scale is logarithmic."""
        return max(self.times_us) > RATIO_LINEAR_MAX * min(self.times_us) > 0


@dataclass(frozen=True)
class Spread:
    """The times of single calls, by case."""

    title: str
    cases: Sequence[tuple[str, Sequence[float]]]


def progress_lines(chart: Progress, zone: tzinfo | None = None) -> Iterator[str]:
    """Draw a progress chart as text: records as steps, own submissions as circles."""
    yield chart.title
    if not chart.times_us:
        yield "nothing is ranked yet"
        return
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    points = (*chart.records, *chart.own)
    begin, end = min(point.at for point in points), chart.last_at
    low, high = min(chart.times_us), max(chart.times_us)
    _draw_steps(
        grid,
        [
            (_chart_column(point.at, begin, end), _chart_row(point.time_us, chart))
            for point in chart.records
        ],
    )
    for point in chart.own:
        grid[_chart_row(point.time_us, chart)][_chart_column(point.at, begin, end)] = "o"
    labels = {_chart_row(time_us, chart): time_text(time_us) for time_us in (low, high)}
    for row, cells in enumerate(grid):
        yield f"{labels.get(row, ''):>{LABEL}} ┤{''.join(cells).rstrip()}"
    first, last = instant_text(begin, zone), instant_text(end, zone)
    yield " " * LABEL + " └" + "─" * WIDTH
    yield " " * (LABEL + 2) + first + (f"{last:>{WIDTH - len(first)}}" if end > begin else "")
    own = f", o {chart.owner}" if chart.own else ""
    yield " " * (LABEL + 2) + f"━ the record{own}{', scale of ratios' if chart.is_ratio else ''}"


def _chart_column(at: datetime, begin: datetime, end: datetime) -> int:
    span_s = (end - begin).total_seconds()
    return round((at - begin).total_seconds() / span_s * (WIDTH - 1)) if span_s else 0


def _chart_row(time_us: float, chart: Progress) -> int:
    """Return the row of a time; the slowest is on top."""
    low, high = min(chart.times_us), max(chart.times_us)
    if high == low:
        return HEIGHT // 2
    part = (
        math.log(time_us / low) / math.log(high / low)
        if chart.is_ratio
        else (time_us - low) / (high - low)
    )
    return round((1 - part) * (HEIGHT - 1))


def _draw_steps(grid: list[list[str]], cells: Sequence[tuple[int, int]]) -> None:
    """Draw the records; each stands until the next one."""
    for index, (x, y) in enumerate(cells):
        end_column = cells[index + 1][0] if index + 1 < len(cells) else WIDTH
        for column in range(x, end_column):
            grid[y][column] = "━"
        if index + 1 < len(cells):
            for row in range(y, cells[index + 1][1]):
                grid[row][min(end_column, WIDTH - 1)] = "┃"


def spread_lines(chart: Spread) -> Iterator[str]:
    """Draw the spread of samples as text: a line of blocks per case, from its fastest call."""
    yield chart.title
    cases = chart.cases[:CASES_MAX]
    width = min(max((len(name) for name, _ in cases), default=0), 40)
    for name, values in cases:
        low, high = min(values), slow(values)
        bars = histogram(values, low, high)
        slower_count = sum(value > high for value in values)
        tail = f", {slower_count} slower" if slower_count else ""
        yield (
            f"{one_line(name, 40):<{width}}  {time_text(low):>9} ▕{bars}▏ {time_text(high):<9} "
            f"median {time_text(median(values))}, {len(values):,} calls{tail}"
        )
    if len(chart.cases) > CASES_MAX:
        yield f"… {len(chart.cases) - CASES_MAX} more cases"


def slow(values: Sequence[float]) -> float:
    """Return the 99th percentile, where a chart ends so that one slow call does not flatten it."""
    return sorted(values)[min(len(values) - 1, math.ceil(0.99 * len(values)) - 1)]


def counts(values: Sequence[float], low: float, high: float, bins: int = BINS) -> list[int]:
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


def histogram(values: Sequence[float], low: float, high: float) -> str:
    """Draw values as a line of blocks; a bin with values is never blank."""
    bin_counts = counts(values, low, high)
    highest = max(bin_counts)
    return "".join(BLOCKS[math.ceil(count / highest * (len(BLOCKS) - 1))] for count in bin_counts)


class Plots(Protocol):
    """Draws charts into files."""

    def png(self, chart: Progress | Spread) -> bytes:
        """Draw a chart as a PNG file. Raises Refused if that is not possible."""
        ...


@dataclass(frozen=True)
class PlotOptions:
    """What to draw, the progress or a submission's samples, and into which file."""

    is_plotted: bool
    samples: int | None
    png: Path | None
    as_json: bool

    @property
    def is_any(self) -> bool:
        """Whether anything is to be drawn."""
        return self.is_plotted or self.samples is not None


@dataclass(frozen=True)
class PlotCommand:
    """Draws for a participant; `who` is None if a token identifies them."""

    disk: Disk
    plots: Plots
    screen: Screen
    who: str | None

    async def draw(self, api: Api, query: LeaderboardQuery, options: PlotOptions) -> int:
        """Draw one chart. Raises Refused and Failed."""
        chart: Progress | Spread
        if options.samples is not None:
            chart = await self._load_spread(api, options.samples)
        else:
            chart = await self._load_progress(api, query)
        if options.png is not None:
            with self.screen.live([options.png.name]) as live:
                live.show(options.png.name, ProgressText("drawing"))
                self.disk.write(options.png, self.plots.png(chart))
        if options.as_json:
            file = None if options.png is None else str(options.png)
            self.screen.json({"file": file} | _chart_document(chart))
        elif options.png is not None:
            self.screen.say(f"{options.png} shows {chart.title}")
        else:
            self._print_chart(chart)
        return OK

    def _print_chart(self, chart: Progress | Spread) -> None:
        lines = progress_lines(chart) if isinstance(chart, Progress) else spread_lines(chart)
        for line in lines:
            self.screen.say(line)

    async def _load_progress(self, api: Api, query: LeaderboardQuery) -> Progress:
        types = await resolve_gpus(api, query)
        if len(types) != 1:
            raise Refused("unknown_gpu", f"name one of {', '.join(types)} after the problem", "gpu")
        (gpu,) = types
        version = {} if query.version is None else {"version": query.version}
        answer = await api.get(Records, "leaderboards", query.problem, gpu, "records", **version)
        records = sorted(answer.value.items, key=lambda record: record.at)
        points = [
            Point(record.at, record.score_us, record.number)
            for record in records
            if record.is_standing
        ]
        owner, own = await self._load_own_points(api, query.problem, gpu, version)
        return Progress(f"{query.problem} on {gpu}", points, own, owner, now())

    async def _load_own_points(
        self, api: Api, problem: str, gpu: str, version: dict[str, int]
    ) -> tuple[str, list[Point]]:
        """Return the caller's ranked submissions; none without a name here."""
        try:
            name = await resolve_name(api, self.who)
            filters = {"problem": problem, "gpu": gpu}
            answer = await api.get(History, "participants", name, "history", **filters, **version)
        except Refused:
            return "", []
        points = [
            Point(item.received_at, item.score_us, item.number)
            for item in answer.value.items
            if item.counts and item.score_us is not None and item.received_at is not None
        ]
        return name, sorted(points, key=lambda item: item.at)

    async def _load_spread(self, api: Api, number: int) -> Spread:
        pieces, remaining_bytes = [], PACKED_BYTES_MAX
        try:
            async for piece in api.download(number, SAMPLES):
                remaining_bytes -= len(piece)
                if remaining_bytes < 0:
                    raise Failed(f"the samples of submission {number} are too large to draw")
                pieces.append(piece)
        except Refused as refused:
            if refused.code != "not_found":
                raise
            reason = f"submission {number} has no samples that you may see: was it timed?"
            raise Refused("no_samples", reason, "--samples") from refused
        cases = read_samples(b"".join(pieces))
        if not cases:
            raise Refused("no_samples", f"submission {number} was not timed", "--samples")
        return Spread(f"the calls of submission {number}", cases)


def read_samples(packed: bytes) -> list[tuple[str, list[float]]]:
    """Return the times of all counted calls by case, from a file of samples. Raises Failed."""
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            cases = json.loads(file.read(BYTES_MAX))["cases"]
        timed = [(name, _counted_times(case)) for name, case in cases.items()]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise Failed(f"the samples cannot be read: {type(error).__name__} {error}") from error
    return [(name, times) for name, times in timed if times]


def _counted_times(case: Any) -> list[float]:
    blocks = (block for process in case["processes"] for block in process["blocks"])
    return [
        float(time_us)
        for block in blocks
        if block.get("is_counted", True)
        for time_us in block["time_us"]
        if time_us is not None
    ]


def _chart_document(chart: Progress | Spread) -> dict[str, Any]:
    """Return a chart as a JSON document."""
    if isinstance(chart, Spread):
        cases = [{"name": name, "time_us": list(values)} for name, values in chart.cases]
        return {"title": chart.title, "cases": cases}
    return {
        "title": chart.title,
        "records": [_point_document(point) for point in chart.records],
        "own": [_point_document(point) for point in chart.own],
        "owner": chart.owner or None,
    }


def _point_document(point: Point) -> dict[str, Any]:
    return {"at": point.at.isoformat(), "score_us": point.time_us, "number": point.number}
