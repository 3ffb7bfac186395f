"""Charts of a leaderboard's progress and of a submission's samples, as text and as PNG.

matplotlib is imported when a PNG is drawn.
"""

import importlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from statistics import median
from typing import Any

from shared.api.leaderboards import History, Records
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.run_files import SAMPLES, counts, read_samples, slow
from shared.presentation.units import instant_text, one_line, time_text
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.files import write_file
from warpboard.service.answers import resolve_gpus
from warpboard.terminal.accounts import resolve_name

WIDTH, HEIGHT = 64, 14
LABEL = 10
BINS = 48
BLOCKS = " ▁▂▃▄▅▆▇█"
CASES_MAX = 24
# If the slowest time is more than this many times the best, the scale is logarithmic.
RATIO_LINEAR_MAX = 8.0
PACKED_BYTES_MAX = 64 * 1024 * 1024
BYTES_MAX = 512 * 1024 * 1024
PNG_INCHES = (9.0, 5.0)
PNG_DPI = 150
PNG_BINS = 60
US = 1e-6
RECORD, OWN = "tab:blue", "tab:orange"


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
    cells = [
        (_chart_column(point.at, begin, end), _chart_row(point.time_us, chart))
        for point in chart.records
    ]
    for index, (x, y) in enumerate(cells):
        end_column = cells[index + 1][0] if index + 1 < len(cells) else WIDTH
        for column in range(x, end_column):
            grid[y][column] = "━"
        if index + 1 < len(cells):
            for row in range(y, cells[index + 1][1]):
                grid[row][min(end_column, WIDTH - 1)] = "┃"
    for point in chart.own:
        grid[_chart_row(point.time_us, chart)][_chart_column(point.at, begin, end)] = "o"
    labels = {_chart_row(time_us, chart): time_text(time_us) for time_us in (low, high)}
    for row, characters in enumerate(grid):
        yield f"{labels.get(row, ''):>{LABEL}} ┤{''.join(characters).rstrip()}"
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


def histogram(values: Sequence[float], low: float, high: float) -> str:
    """Draw values as a line of blocks; a bin with values is never blank."""
    bin_counts = counts(values, low, high, BINS)
    highest = max(bin_counts)
    return "".join(BLOCKS[math.ceil(count / highest * (len(BLOCKS) - 1))] for count in bin_counts)


def draw_png(chart: Progress | Spread) -> bytes:
    """Draw a chart as a PNG file, without a display or matplotlib's global state.

    Raises Refused if matplotlib is not installed.
    """
    figure = _import_matplotlib("figure").Figure(figsize=PNG_INCHES, layout="constrained")
    if isinstance(chart, Progress):
        _draw_progress(figure, chart)
    else:
        _draw_spread(figure, chart)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=PNG_DPI)
    return file.getvalue()


def _import_matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        reason = (
            "PNG needs matplotlib: pip install 'warpboard-cli[plots]'; without --png it is text"
        )
        raise Refused("no_matplotlib", reason, "--png") from error


def _draw_progress(figure: Any, chart: Progress) -> None:
    axes = figure.add_subplot()
    records = [(point.at, point.time_us * US) for point in chart.records]
    if records:
        axes.plot(*zip(*records, strict=True), ".", color=RECORD, markersize=9)
        steps = [*records, (chart.last_at, records[-1][1])]
        line = {"where": "post", "color": RECORD, "linewidth": 2, "label": "the record"}
        axes.step(*zip(*steps, strict=True), **line)
    if chart.own:
        own = [(point.at, point.time_us * US) for point in chart.own]
        circles = {"color": OWN, "markerfacecolor": "none", "label": chart.owner}
        axes.plot(*zip(*own, strict=True), "o", **circles)
    if chart.times_us:
        axes.set_yscale("log" if chart.is_ratio else "linear")
        axes.legend()
    else:
        axes.text(0.5, 0.5, "nothing is ranked yet", ha="center", transform=axes.transAxes)
    dates = _import_matplotlib("dates")
    places = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))
    # People read times as 10 ms or 250 µs.
    axes.yaxis.set_major_formatter(_import_matplotlib("ticker").EngFormatter(unit="s"))
    axes.set_title(chart.title)
    axes.set_xlabel("time in UTC")
    axes.set_ylabel("score, less is better")
    axes.grid(visible=True, alpha=0.3)


def _draw_spread(figure: Any, chart: Spread) -> None:
    cases = chart.cases[:CASES_MAX]
    figure.set_size_inches(PNG_INCHES[0], max(PNG_INCHES[1], 1.6 * len(cases)))
    figure.suptitle(chart.title)
    for index, (name, values) in enumerate(cases):
        axes = figure.add_subplot(len(cases), 1, index + 1)
        low, high = min(values), slow(values)
        width = (high - low) / PNG_BINS or 1.0
        lefts = [(low + width * step) * US for step in range(PNG_BINS)]
        bars = counts(values, low, high, PNG_BINS)
        axes.bar(lefts, bars, width * US, align="edge", color=RECORD)
        middle = median(values)
        axes.axvline(middle * US, color=OWN, label=f"median {time_text(middle)}")
        axes.legend(fontsize="small")
        axes.set_title(f"{name}, {len(values):,} calls", loc="left", fontsize="small")
        axes.set_ylabel("calls")
        axes.xaxis.set_major_formatter(_import_matplotlib("ticker").EngFormatter(unit="s"))
    figure.axes[-1].set_xlabel("time of one call")


def show_chart(context: AppContext, chart: Progress | Spread, png: Path | None) -> int:
    """Print a chart, or draw it into a PNG file. Raises Refused."""
    lines = progress_lines(chart) if isinstance(chart, Progress) else spread_lines(chart)
    document = {"file": None if png is None else str(png)} | _chart_document(chart)
    if png is None:
        return context.show(document, lines)
    with context.screen.live([png.name]) as show:
        show(png.name, ProgressText("drawing"))
        write_file(png, draw_png(chart), is_private=False)
    return context.show(document, [f"{png} shows {chart.title}"])


async def load_progress(
    context: AppContext, api: Api, problem: str, gpu: str | None, version: int | None
) -> Progress:
    """Return the records of a leaderboard, and the caller's own submissions.

    Raises Refused and Failed.
    """
    types = await resolve_gpus(api, problem, gpu)
    if len(types) != 1:
        raise Refused("unknown_gpu", f"name one of {', '.join(types)} after the problem", "gpu")
    answer = await api.get(Records, "leaderboards", problem, types[0], "records", version=version)
    points = [
        Point(record.at, record.score_us, record.number)
        for record in sorted(answer.value.items, key=lambda record: record.at)
        if record.is_standing
    ]
    owner, own = "", []
    try:
        owner = await resolve_name(api, context.participant)
        history = await api.get(
            *(History, "participants", owner, "history"),
            problem=problem,
            gpu=types[0],
            version=version,
        )
    except Refused:  # There is no name here.
        owner = ""
    else:
        own = [
            Point(item.received_at, item.score_us, item.number)
            for item in history.value.items
            if item.counts and item.score_us is not None and item.received_at is not None
        ]
    own.sort(key=lambda point: point.at)
    return Progress(f"{problem} on {types[0]}", points, own, owner, now())


async def load_spread(api: Api, number: int) -> Spread:
    """Return the times of a submission's calls. Raises Refused and Failed."""
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
    cases = read_samples(b"".join(pieces), BYTES_MAX)
    if not cases:
        raise Refused("no_samples", f"submission {number} was not timed", "--samples")
    return Spread(
        f"the calls of submission {number}", [(case.name, case.times_us) for case in cases]
    )


def _chart_document(chart: Progress | Spread) -> dict[str, Any]:
    if isinstance(chart, Spread):
        cases = [{"name": name, "time_us": list(values)} for name, values in chart.cases]
        return {"title": chart.title, "cases": cases}
    records, own = (
        [
            {"at": point.at.isoformat(), "score_us": point.time_us, "number": point.number}
            for point in points
        ]
        for points in (chart.records, chart.own)
    )
    return {"title": chart.title, "records": records, "own": own, "owner": chart.owner or None}
