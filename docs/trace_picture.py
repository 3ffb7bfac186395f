"""Draws the picture of docs/operating/traces.md from a real trace.

`python -m docs.trace_picture` starts a platform with tracing and a collector, submits a kernel
twice, and draws the second trace, which no compiler's first run distorts.
"""

import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import PATIENT, ROOT, Running
from tests.support.spans import CollectedSpan, run_collector
from tests.support.waits import until

PICTURE = Path(__file__).parent / "images" / "trace.svg"
SERVICES = ("INGEST", "SCHEDULER", "GPU_AGENT", "RANKER")
COLORS = {
    "warpboard-ingest": "#3b82c4",
    "warpboard-scheduler": "#d9822b",
    "warpboard-gpu-agent": "#4a9d5b",
    "warpboard-ranker": "#8e5bb5",
}
WIDTH, ROW, TOP, LEFT, RIGHT = 880, 26, 46, 250, 90
STYLE = "font-family: sans-serif; font-size: 13px"
EXPORT_S_MAX = 60


def main() -> None:
    """Record a trace and draw it."""
    spans = record_trace()
    PICTURE.write_text(draw(spans), encoding="utf-8")
    print(f"wrote {PICTURE}")


def record_trace() -> list[CollectedSpan]:
    """Return the spans of a submission to a platform that was started for it."""
    with run_collector() as collector, tempfile.TemporaryDirectory() as folder:
        switches = {f"WARPBOARD_{service}_TRACING": "true" for service in SERVICES}
        platform = Running(Path(folder) / "home", PATIENT | switches | collector.environ)
        try:
            platform.up()
            add_problem(platform.url, ROOT / "problems" / "identity")
            with Person(platform.url, "ada") as ada:
                ada.end(ada.submit(HONEST))
                ended = ada.end(ada.submit(f"{HONEST}# again\n", mode="ranked"))
            trace = ended["id"].replace("-", "")

            def has_all() -> bool:
                return {"run", "rank"} <= {span.name for span in collector.trace(trace)}

            until(has_all, EXPORT_S_MAX)
            return collector.trace(trace)
        finally:
            platform.end()


def draw(spans: Sequence[CollectedSpan]) -> str:
    """Return a picture: a bar for each span from its begin to its end, below its parent."""
    began_ns = min(span.began_ns for span in spans)
    took_ns = max(span.ended_ns for span in spans) - began_ns
    ordered = list(_in_order(spans, "", 0))
    height = TOP + ROW * len(ordered) + 20
    title = f"One ranked submission, {_duration(took_ns)} from the request to the rank"
    parts = [_text(20, 26, title), *_legend()]
    for row, (depth, span) in enumerate(ordered):
        y = TOP + ROW * row
        x = LEFT + (WIDTH - LEFT - RIGHT) * (span.began_ns - began_ns) / took_ns
        width = max(2.0, (WIDTH - LEFT - RIGHT) * (span.ended_ns - span.began_ns) / took_ns)
        name, color = "  " * depth + span.name, COLORS[span.service]
        parts.append(_text(20 + 14 * depth, y + 17, name.strip()))
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="{ROW - 8}" rx="2" '
            f'fill="{color}"/>'
        )
        parts.append(_text(x + width + 6, y + 17, _duration(span.ended_ns - span.began_ns), "#666"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'style="{STYLE}">\n<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


def _in_order(
    spans: Sequence[CollectedSpan], parent: str, depth: int
) -> "list[tuple[int, CollectedSpan]]":
    """Return the spans below a parent, each followed by those below it."""
    groups = [
        [(depth, span), *_in_order(spans, span.id, depth + 1)]
        for span in spans
        if span.parent == parent
    ]
    # Spans without others below them come first, so that they stand next to their parent.
    return [row for group in sorted(groups, key=lambda group: len(group) > 1) for row in group]


def _legend() -> list[str]:
    parts, x = [], WIDTH - 400
    for service, color in COLORS.items():
        parts.append(f'<rect x="{x}" y="16" width="12" height="12" rx="2" fill="{color}"/>')
        parts.append(_text(x + 17, 26, service.removeprefix("warpboard-")))
        x += 100
    return parts


def _duration(took_ns: int) -> str:
    """Return a duration as a person reads it.

    >>> [_duration(took_ns) for took_ns in (900_000, 12_300_000, 1_234_000_000)]
    ['0.9 ms', '12.3 ms', '1.23 s']
    """
    took_ms = took_ns / 1e6
    return f"{took_ms / 1000:.2f} s" if took_ms >= 1000 else f"{took_ms:.1f} ms"


def _text(x: float, y: float, text: str, color: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{color}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
