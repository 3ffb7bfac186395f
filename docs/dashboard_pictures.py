"""Draws the dashboards: `python -m docs.dashboard_pictures` writes docs/images/dashboards/*.png.

No Grafana is needed. Each panel of the generated JSON is drawn at its place with its unit, its
thresholds and what its queries return, of a platform that was started for it and kept busy for a
minute. It shows layout and data; colors, fonts and legends of Grafana differ.
"""

import json
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from docs.dashboards import FOLDER
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.observability.prometheus import Prometheus
from tests.observability.watching import watch_platform
from tests.support.people import HONEST, Person
from tests.support.platform import QUICK, Running

PICTURES = Path(__file__).parent / "images" / "dashboards"
OPTIONS = ("--discord-sim", "--launch", "1", "--local-webhooks")
BUSY_S = 60
STEP_S = 2
CELL = 0.6
COLORS = {"green": "#56a64b", "orange": "#ff9830", "red": "#e02f44"}
SERIES_MAX = 8


def main() -> None:
    """Run a platform, keep it busy, and draw every dashboard."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        platform = Running(Path(folder) / "home", QUICK, *OPTIONS)
        try:
            platform.up()
            with watch_platform(platform, Path(folder) / "watch") as watch:
                began = time.time()
                _keep_busy(platform)
                for path in sorted(FOLDER.glob("*.json")):
                    _draw(json.loads(path.read_text()), watch.prometheus, began, path.stem)
        finally:
            if platform.process is not None and platform.process.poll() is None:
                platform.stop(signal.SIGINT)


def _keep_busy(platform: Running) -> None:
    until = time.monotonic() + BUSY_S
    with Person(platform.url, "ada") as ada:
        while time.monotonic() < until:
            ada.end(ada.submit(f"{HONEST}# {time.monotonic()}\n"))


def _draw(dashboard: dict[str, Any], prometheus: Prometheus, began: float, name: str) -> None:
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    figure = Figure(figsize=(24 * CELL, (rows + 2) * CELL), facecolor="#f4f5f5")
    figure.text(0.01, 1 - 0.8 / (rows + 2), dashboard["title"], size=15, weight="bold")
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        left, width = place["x"] / 24, place["w"] / 24
        top, height = 1 - (place["y"] + 2) / (rows + 2), place["h"] / (rows + 2)
        if panel["type"] == "row":
            figure.text(0.01, top - height * 0.8, f"⌄ {panel['title']}", size=11)
            continue
        is_stat = panel["type"] == "stat"
        inset = (0.004, 0.004) if is_stat else (0.035, 0.3 * height)
        axes = figure.add_axes(
            (
                left + inset[0],
                top - height + inset[1],
                width * 0.97 - inset[0],
                height * 0.92 - inset[1],
            )
        )
        (_draw_stat if is_stat else _draw_graph)(axes, panel, prometheus, began)
    figure.savefig(PICTURES / f"{name}.png", dpi=60)
    print(f"wrote {PICTURES / name}.png")


def _draw_stat(axes: Axes, panel: dict[str, Any], prometheus: Prometheus, _began: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    series = prometheus.query(panel["targets"][0]["expr"])
    template = panel["targets"][0]["legendFormat"]
    values = [(_legend(item["metric"], template), float(item["value"][1])) for item in series]
    steps = defaults["thresholds"]["steps"]
    color = COLORS[steps[0]["color"]] if not values else _color(values[0][1], steps)
    axes.set_facecolor(color if values else "#d8d9da")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.03, 0.84, panel["title"], size=9, transform=axes.transAxes)
    lines = [f"{_format(value, defaults['unit'])}  {label}".strip() for label, value in values[:3]]
    text = "\n".join(lines) or defaults.get("noValue", "No data")
    axes.text(0.5, 0.38, text, size=9, ha="center", va="center", transform=axes.transAxes)


def _draw_graph(axes: Axes, panel: dict[str, Any], prometheus: Prometheus, began: float) -> None:
    defaults, labels = panel["fieldConfig"]["defaults"], []
    for target in panel["targets"]:
        expr = target["expr"].replace("$__rate_interval", "30s")
        query = {"query": expr, "start": began, "end": time.time(), "step": STEP_S}
        response = prometheus.http.post("/api/v1/query_range", data=query).raise_for_status()
        for item in response.json()["data"]["result"][:SERIES_MAX]:
            points = [(float(at) - began, float(value)) for at, value in item["values"]]
            axes.plot(*zip(*points, strict=True), linewidth=1.2)
            labels.append(_legend(item["metric"], target["legendFormat"]))
    for step in defaults.get("thresholds", {}).get("steps", [])[1:]:
        if panel.get("links") and axes.get_ylim()[1] >= step["value"]:
            axes.axhline(step["value"], color="#e02f44", linestyle="--", linewidth=1)
    axes.set_title(panel["title"], size=9, loc="left")
    axes.tick_params(labelsize=6)
    ticks = axes.get_yticks()
    axes.set_yticks(ticks, [_format(tick, defaults["unit"]) for tick in ticks])
    axes.set_xlim(left=0)
    text = " · ".join(labels[:6]) or "No data"
    axes.text(0, -0.32, text[:110], size=6, transform=axes.transAxes)


def _color(value: float, steps: list[dict[str, Any]]) -> str:
    reached = [step["color"] for step in steps if step["value"] is None or step["value"] <= value]
    return COLORS[reached[-1]]


def _legend(metric: dict[str, str], template: str) -> str:
    if template in ("", "__auto"):
        return " ".join(value for name, value in metric.items() if name != "__name__")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: metric.get(match[1], ""), template).strip()


def _format(value: float, unit: str) -> str:
    """Return a value in the unit of a panel.

    >>> [_format(0.25, "percentunit"), _format(90, "s"), _format(3 * 2**20, "bytes")]
    ['25%', '1.5 min', '3 MiB']
    """
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "bool_yes_no":
        return "Yes" if value else "No"
    scales = {
        "s": ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (0.001, "ms")),
        "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    }
    for size, name in scales.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


if __name__ == "__main__":
    main()
