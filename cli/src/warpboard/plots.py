"""Charts as PNG, by matplotlib, which is looked up when a chart is drawn."""

import importlib
import io
from statistics import median
from typing import Any

from shared.errors import Refused
from warpboard.domain.charts import CASES_MAX, Progress, Spread, counts, slow
from warpboard.domain.units import time_text

INCHES = (9.0, 5.0)
DPI = 150
BINS = 60
US = 1e-6
RECORD, OWN = "tab:blue", "tab:orange"


class PngPlots:
    """Plots without a display: nothing of matplotlib's global state is touched."""

    def png(self, chart: Progress | Spread) -> bytes:
        """A chart as a PNG file. Errors: Refused where matplotlib is not installed."""
        figure = _figure()
        if isinstance(chart, Progress):
            _progress(figure, chart)
        else:
            _spread(figure, chart)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DPI)
        return file.getvalue()


def _looked_up(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        what = "PNG needs matplotlib: pip install 'warpboard-cli[plots]'; without --png it is text"
        raise Refused("no_matplotlib", what, "--png") from error


def _figure() -> Any:
    return _looked_up("figure").Figure(figsize=INCHES, layout="constrained")


def _in_seconds(axis: Any) -> None:
    """Ticks as people say times: 10 ms, 250 µs."""
    axis.set_major_formatter(_looked_up("ticker").EngFormatter(unit="s"))


def _progress(figure: Any, chart: Progress) -> None:
    axes = figure.add_subplot()
    records = [(one.at, one.time_us * US) for one in chart.records]
    if records:
        axes.plot(*zip(*records, strict=True), ".", color=RECORD, markersize=9)
        steps = [*records, (chart.last_at, records[-1][1])]
        line = {"where": "post", "color": RECORD, "linewidth": 2, "label": "the record"}
        axes.step(*zip(*steps, strict=True), **line)
    if chart.own:
        own = [(one.at, one.time_us * US) for one in chart.own]
        circles = {"color": OWN, "markerfacecolor": "none", "label": chart.owner}
        axes.plot(*zip(*own, strict=True), "o", **circles)
    if chart.times_us:
        axes.set_yscale("log" if chart.is_ratio else "linear")
        axes.legend()
    else:
        axes.text(0.5, 0.5, "nothing is ranked yet", ha="center", transform=axes.transAxes)
    dates = _looked_up("dates")
    places = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))
    _in_seconds(axes.yaxis)
    axes.set_title(chart.title)
    axes.set_xlabel("time in UTC")
    axes.set_ylabel("score, less is better")
    axes.grid(visible=True, alpha=0.3)


def _spread(figure: Any, chart: Spread) -> None:
    shown = chart.cases[:CASES_MAX]
    figure.set_size_inches(INCHES[0], max(INCHES[1], 1.6 * len(shown)))
    figure.suptitle(chart.title)
    for index, (name, values) in enumerate(shown):
        axes = figure.add_subplot(len(shown), 1, index + 1)
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
        _in_seconds(axes.xaxis)
    figure.axes[-1].set_xlabel("time of one call")
