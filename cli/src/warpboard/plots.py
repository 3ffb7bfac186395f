"""Charts as PNG; matplotlib is imported when a chart is drawn."""

import importlib
import io
from statistics import median
from typing import Any

from shared.errors import Refused
from shared.presentation.units import time_text
from warpboard.service.plots import CASES_MAX, Progress, Spread, counts, slow

INCHES = (9.0, 5.0)
DPI = 150
BINS = 60
US = 1e-6
RECORD, OWN = "tab:blue", "tab:orange"


class PngPlots:
    """Draws without a display and without matplotlib's global state."""

    def png(self, chart: Progress | Spread) -> bytes:
        """Draw a chart as a PNG file. Raises Refused if matplotlib is not installed."""
        figure = _import_matplotlib("figure").Figure(figsize=INCHES, layout="constrained")
        if isinstance(chart, Progress):
            _draw_progress(figure, chart)
        else:
            _draw_spread(figure, chart)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DPI)
        return file.getvalue()


def _import_matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        reason = (
            "PNG needs matplotlib: pip install 'warpboard-cli[plots]'; without --png it is text"
        )
        raise Refused("no_matplotlib", reason, "--png") from error


def _format_seconds(axis: Any) -> None:
    """Label ticks as people read times: 10 ms, 250 µs."""
    axis.set_major_formatter(_import_matplotlib("ticker").EngFormatter(unit="s"))


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
    _format_seconds(axes.yaxis)
    axes.set_title(chart.title)
    axes.set_xlabel("time in UTC")
    axes.set_ylabel("score, less is better")
    axes.grid(visible=True, alpha=0.3)


def _draw_spread(figure: Any, chart: Spread) -> None:
    cases = chart.cases[:CASES_MAX]
    figure.set_size_inches(INCHES[0], max(INCHES[1], 1.6 * len(cases)))
    figure.suptitle(chart.title)
    for index, (name, values) in enumerate(cases):
        axes = figure.add_subplot(len(cases), 1, index + 1)
        low, high = min(values), slow(values)
        width = (high - low) / BINS or 1.0
        lefts = [(low + width * step) * US for step in range(BINS)]
        bars = counts(values, low, high, BINS)
        axes.bar(lefts, bars, width * US, align="edge", color=RECORD)
        middle = median(values)
        axes.axvline(middle * US, color=OWN, label=f"median {time_text(middle)}")
        axes.legend(fontsize="small")
        axes.set_title(f"{name}, {len(values):,} calls", loc="left", fontsize="small")
        axes.set_ylabel("calls")
        _format_seconds(axes.xaxis)
    figure.axes[-1].set_xlabel("time of one call")
