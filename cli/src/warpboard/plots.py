"""Charts as PNG, by matplotlib, which is looked up when a chart is drawn."""

import importlib
import io
from typing import Any

from shared.errors import Refused
from warpboard.domain.charts import CASES_MAX, Progress, Spread, counts

INCHES = (9.0, 5.0)
DPI = 150
BINS = 60


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


def _figure() -> Any:
    try:
        module = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        what = "PNG needs matplotlib: pip install 'warpboard-cli[plots]'; without --png it is text"
        raise Refused("no_matplotlib", what, "--png") from error
    return module.Figure(figsize=INCHES, layout="constrained")


def _progress(figure: Any, chart: Progress) -> None:
    axes = figure.add_subplot()
    records = sorted(chart.records, key=lambda one: one.at)
    if records:
        last = max(one.at for one in (*records, *chart.own))
        times = [one.at for one in records] + [last]
        values = [one.time_us for one in records] + [records[-1].time_us]
        axes.step(times, values, where="post", color="tab:blue", linewidth=2, label="the record")
        axes.plot(times[:-1], values[:-1], ".", color="tab:blue")
    if chart.own:
        own = [one.time_us for one in chart.own]
        axes.plot(
            *([one.at for one in chart.own], own, "o"),
            *(),
            color="tab:orange",
            markerfacecolor="none",
            label=chart.owner,
        )
    if chart.times_us and chart.is_ratio:
        axes.set_yscale("log")
    axes.set_title(chart.title)
    axes.set_ylabel("score in µs")
    axes.grid(visible=True, alpha=0.3)
    if chart.times_us:
        axes.legend()
    figure.autofmt_xdate()


def _spread(figure: Any, chart: Spread) -> None:
    shown = chart.cases[:CASES_MAX]
    figure.set_size_inches(INCHES[0], max(INCHES[1], 1.4 * len(shown)))
    figure.suptitle(chart.title)
    for index, (name, values) in enumerate(shown):
        axes = figure.add_subplot(len(shown), 1, index + 1)
        low, high = min(values), sorted(values)[max(0, round(0.99 * len(values)) - 1)]
        width = (high - low) / BINS or 1.0
        lefts = [low + width * step for step in range(BINS)]
        axes.bar(lefts, counts(values, low, high, BINS), width, align="edge", color="tab:blue")
        axes.set_title(f"{name}, {len(values):,} calls", loc="left", fontsize="small")
        axes.set_yticks([])
    figure.axes[-1].set_xlabel("time of one call in µs")
