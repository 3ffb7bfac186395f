"""Positions in charts, which the templates draw as inline SVG, and preview images of pages."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from io import BytesIO
from math import ceil, floor, inf, log, log10
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from shared.api.agents import CanaryRun
from shared.api.cases import Baseline
from shared.api.leaderboards import Record, ScoreAt
from shared.api.submissions import SubmissionLine
from shared.presentation.run_files import CaseSamples, counts, slow
from shared.presentation.units import one_line, time_text

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

# Space at both ends of an axis, in per cent.
MARGIN = 4.0
# From this ratio of the ends on, the marks of an axis are 1, 2 and 5 times a power of ten.
WIDE_RATIO = 4.0
MARKS_MAX = 6
RECORDS_MAX = 200
# A baseline that is further away from all records would flatten them.
BASELINE_RATIO_MAX = 3.0
BINS = 48
DELETED = "a deleted name"
PROCESSES_MAX = 16
# The axis of canaries shows at least 10 % around the usual time.
CANARY_RATIOS = (1 / 1.1, 1.1)
# A bar of a histogram that is not empty can be seen, in per cent of the highest one.
BAR_MIN = 4
# The size that sites show as a large preview, and the colours of static/site.css.
PREVIEW_SIZE = (1200, 630)
PREVIEW_MARGIN = 80
PREVIEWS_MAX = 64
PAGE, TEXT, FAINT, FIRST = "#ffffff", "#191a20", "#5d606c", "#4f46d8"
FONT_FILE = "DejaVuSans.ttf"


class LogScale(NamedTuple):
    """A logarithmic axis between two positive values.

    An exponent below 1 stretches the axis near its low end, where differences matter most.
    """

    low: float
    high: float
    exponent: float = 1.0

    def position(self, value: float) -> float:
        """Return where a value is.

        >>> [LogScale(1.0, 100.0).position(value) for value in (1.0, 10.0, 100.0)]
        [4.0, 50.0, 96.0]
        >>> LogScale(1.0, 10000.0, 0.5).position(10.0)
        50.0
        """
        if self.high <= self.low:
            return 50.0
        share = log(max(value, self.low) / self.low) / log(self.high / self.low)
        stretched = float(min(share, 1.0) ** self.exponent)
        return round(MARGIN + stretched * (100 - 2 * MARGIN), 2)


class IntervalBar(NamedTuple):
    """A value with its interval on an axis."""

    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """The length of the interval."""
        return round(self.high - self.low, 2)


def make_scale(times_us: Iterable[float | None], exponent: float = 1.0) -> LogScale:
    """Return an axis for times, without those that are missing or not positive.

    >>> make_scale([3.0, None, 12.0])
    LogScale(low=3.0, high=12.0, exponent=1.0)
    """
    known_us = [time_us for time_us in times_us if time_us is not None and time_us > 0]
    return LogScale(min(known_us), max(known_us), exponent) if known_us else LogScale(1.0, 1.0)


def make_bar(
    scale: LogScale, time_us: float | None, interval_us: Sequence[float] | None
) -> IntervalBar | None:
    """Return the bar of a time, None without a time."""
    if time_us is None or time_us <= 0:
        return None
    low_us, high_us = interval_us or (time_us, time_us)
    low, middle, high = map(scale.position, (low_us, time_us, high_us))
    return IntervalBar(low, middle, high)


def axis_marks(scale: LogScale) -> list[float]:
    """Return round values on an axis.

    >>> axis_marks(LogScale(3.0, 70.0)), axis_marks(LogScale(10.2, 11.9))
    ([5.0, 10.0, 20.0, 50.0], [10.5, 11.0, 11.5])
    >>> axis_marks(LogScale(1.0, 1e6))
    [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
    """
    if scale.high <= scale.low:
        return [scale.low]
    if scale.high < WIDE_RATIO * scale.low:
        step = _round_step((scale.high - scale.low) / (MARKS_MAX - 2))
        first, last = ceil(scale.low / step), floor(scale.high / step)
        return [float(f"{number * step:.6g}") for number in range(first, last + 1)]
    powers = range(floor(log10(scale.low)), ceil(log10(scale.high)) + 1)
    # As many as fit, from powers of ten alone to three marks for each.
    fitting: list[float] = []
    for factors in ((1,), (1, 3), (1, 2, 5)):
        marks = [float(f"{factor}e{power}") for power in powers for factor in factors]
        marks = [mark for mark in marks if scale.low <= mark <= scale.high]
        if not fitting or len(marks) <= MARKS_MAX:
            fitting = marks
    return fitting


def _round_step(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


class Dot(NamedTuple):
    """A value at an instant, as a chart gets it: its text, and the page that it leads to.

    `is_counted` if the staircase of its line goes through it; the others are hollow.
    """

    at: datetime
    value: float
    text: str
    path: str = ""
    is_counted: bool = True


class Point(NamedTuple):
    """A dot in a chart."""

    x: float
    y: float
    dot: Dot


class Line(NamedTuple):
    """The dots of one participant, agent or leaderboard, with an SVG path through them.

    The path is in thousandths of the chart's width and height, "" without one. `style` is its
    class: a number for each participant, or the record.
    """

    name: str
    style: str
    points: Sequence[Point]
    outline: str


class LabelledLine(NamedTuple):
    """A horizontal line of a chart: a mark of the axis or a baseline."""

    y: float
    label: str | float


class Chart(NamedTuple):
    """Values over time, on a logarithmic axis."""

    lines: Sequence[Line]
    marks: Sequence[LabelledLine]
    levels: Sequence[LabelledLine]
    first_at: datetime
    last_at: datetime


class Series(NamedTuple):
    """What becomes a line of a chart: its dots, oldest first."""

    name: str
    dots: Sequence[Dot]
    style: str = "0"
    is_stepped: bool = True


def draw_chart(
    series: Sequence[Series],
    levels: Sequence[tuple[str, float]] = (),
    bounds: Sequence[float] = (),
) -> Chart | None:
    """Return the chart of several series over the same time, None with fewer than two dots.

    A level is drawn if it is near the dots. The axis includes the bounds.
    """
    dots = [dot for each in series for dot in each.dots]
    if len(dots) < 2:
        return None
    values = [dot.value for dot in dots]
    near = [
        (name, value)
        for name, value in levels
        if min(values) / BASELINE_RATIO_MAX < value < max(values) * BASELINE_RATIO_MAX
    ]
    scale = make_scale([*values, *(value for _, value in near), *bounds])
    instants = sorted(dot.at for dot in dots)
    xs = dict(zip(instants, _spread_over_time(instants), strict=True))
    lines = [
        _draw_line(
            each, [Point(xs[dot.at], _find_height(scale, dot.value), dot) for dot in each.dots]
        )
        for each in series
    ]
    return Chart(
        lines=lines,
        marks=[LabelledLine(_find_height(scale, mark), mark) for mark in axis_marks(scale)],
        levels=[LabelledLine(_find_height(scale, value), name) for name, value in near],
        first_at=instants[0],
        last_at=instants[-1],
    )


def _draw_line(series: Series, points: Sequence[Point]) -> Line:
    """Return a line; its staircase goes through the counted points, and on to the right end.

    >>> dots = [Dot(datetime(2026, 1, 1), 2.0, ""), Dot(datetime(2026, 1, 2), 1.0, "")]
    >>> points = [Point(2.0, 4.0, dots[0]), Point(96.0, 96.0, dots[1])]
    >>> _draw_line(Series("ada", dots), points).outline
    'M20 40H960V960H1000'
    """
    counted = [point for point in points if point.dot.is_counted]
    outline = ""
    if counted and series.is_stepped:
        steps = "".join(f"H{10 * point.x:.0f}V{10 * point.y:.0f}" for point in counted[1:])
        outline = f"M{10 * counted[0].x:.0f} {10 * counted[0].y:.0f}{steps}H1000"
    return Line(series.name, series.style, points, outline)


def draw_records(
    newest_first: Sequence[Record], progress: Sequence[Series], baselines: Sequence[Baseline]
) -> Chart | None:
    """Return the chart of a leaderboard: everybody's best over time, and the newest records.

    A record that was invalidated is a point beside the staircase.
    """
    records = [
        Dot(
            record.at,
            record.score_us,
            f"{time_text(record.score_us)} by {one_line(record.participant or DELETED, 60)}",
            f"/submissions/{record.number}",
            record.is_standing,
        )
        for record in newest_first[:RECORDS_MAX][::-1]
    ]
    levels = [(it.name, it.score_us) for it in baselines if it.score_us is not None]
    return draw_chart([Series("record", records, "record"), *progress], levels)


def draw_progress(newest_first: Sequence[SubmissionLine]) -> Chart | None:
    """Return the chart of a participant's submissions, None if fewer than two have a score.

    A submission that was not the best of its participant so far is a point beside the staircase.
    """
    dots: list[Dot] = []
    best_us = inf
    for submission in newest_first[::-1]:
        if submission.score_us is None or submission.score_us <= 0:
            continue
        is_best = submission.is_eligible and submission.score_us < best_us
        best_us = submission.score_us if is_best else best_us
        text = f"{time_text(submission.score_us)}, #{submission.number}"
        path = f"/submissions/{submission.number}"
        dots.append(Dot(submission.received_at, submission.score_us, text, path, is_best))
    return draw_chart([Series("", dots)])


def draw_canaries(newest_first: Sequence[CanaryRun]) -> Chart | None:
    """Return the chart of an agent's canaries, None if there are fewer than two; slower is higher.

    One that failed has no ratio, and is at the top.
    """
    ratios = [canary.ratio for canary in newest_first if canary.ratio]
    highest = max([*CANARY_RATIOS, *ratios])
    dots = [
        Dot(
            canary.at,
            canary.ratio or highest,
            f"{canary.ratio:.3f}" if canary.ratio else "failed",
            is_counted=canary.is_good,
        )
        for canary in newest_first[::-1]
    ]
    return draw_chart([Series("", dots, is_stepped=False)], bounds=CANARY_RATIOS)


SPARK_WIDTH, SPARK_HEIGHT = 88, 22


def draw_sparkline(records: Sequence[ScoreAt]) -> str:
    """Return the SVG path of a falling record, oldest first; "" without two records.

    >>> at = [datetime(2026, 1, day) for day in (1, 2, 3)]
    >>> draw_sparkline([ScoreAt(at=day, score_us=us) for day, us in zip(at, (4.0, 2.0, 1.0))])
    'M2 2H44V11H86V20H88'
    """
    if len(records) < 2:
        return ""
    scale = make_scale(record.score_us for record in records)
    xs = _spread_over_time([record.at for record in records])
    ys = [_find_height(scale, record.score_us) for record in records]
    # The same margins, in pixels.
    places = [
        (
            2 + (x - 2) / 94 * (SPARK_WIDTH - 4),
            2 + (y - MARGIN) / (100 - 2 * MARGIN) * (SPARK_HEIGHT - 4),
        )
        for x, y in zip(xs, ys, strict=True)
    ]
    steps = "".join(f"H{x:.0f}V{y:.0f}" for x, y in places[1:])
    return f"M{places[0][0]:.0f} {places[0][1]:.0f}{steps}H{SPARK_WIDTH}"


def _spread_over_time(instants: Sequence[datetime]) -> list[float]:
    """Return the horizontal positions of instants, oldest first; equal ones keep their order."""
    first_at, span_s = instants[0], (instants[-1] - instants[0]).total_seconds()
    shares = (
        (at - first_at).total_seconds() / span_s if span_s else index / (len(instants) - 1)
        for index, at in enumerate(instants)
    )
    return [round(2 + 94 * share, 2) for share in shares]


def _find_height(scale: LogScale, value: float) -> float:
    return round(100 - scale.position(value), 2)


class AxisMark(NamedTuple):
    """A mark of a horizontal axis."""

    x: float
    time_us: float


class ProcessBars(NamedTuple):
    """The histogram of one process: an SVG path, BINS wide and 100 high."""

    calls: int
    outline: str


class Histogram(NamedTuple):
    """The times of a case's calls, process by process, up to the 99th percentile of all."""

    case: str
    processes: Sequence[ProcessBars]
    processes_count: int
    calls: int
    slower_count: int
    low_us: float
    median_us: float
    high_us: float
    marks: Sequence[AxisMark]


def draw_histogram(samples: CaseSamples) -> Histogram:
    """Return the histogram of a case; only the first processes are drawn.

    >>> chart = draw_histogram(CaseSamples("n=1", [[1.0] * 99, [1.0, 2.0, 50.0]]))
    >>> chart.slower_count, chart.high_us, [bars.calls for bars in chart.processes]
    (1, 2.0, [99, 3])
    """
    times_us = samples.times_us
    high_us = slow(times_us)
    scale = make_scale(time_us for time_us in times_us if time_us <= high_us)
    return Histogram(
        case=samples.name,
        processes=[
            _draw_process(scale, process_us, high_us)
            for process_us in samples.processes[:PROCESSES_MAX]
        ],
        processes_count=len(samples.processes),
        calls=len(times_us),
        slower_count=sum(time_us > high_us for time_us in times_us),
        low_us=min(times_us),
        median_us=median(times_us),
        high_us=high_us,
        marks=[AxisMark(scale.position(mark), mark) for mark in axis_marks(scale)],
    )


def _draw_process(scale: LogScale, times_us: Sequence[float], high_us: float) -> ProcessBars:
    positions = [scale.position(time_us) for time_us in times_us if time_us <= high_us]
    bin_counts = counts(positions, MARGIN, 100 - MARGIN, BINS)
    highest = max(bin_counts) or 1
    heights = [max(BAR_MIN, round(100 * count / highest)) if count else 0 for count in bin_counts]
    steps = "".join(f"V{100 - height}H{index}" for index, height in enumerate(heights, 1))
    return ProcessBars(len(times_us), f"M0 100{steps}V100Z")


class PreviewLine(NamedTuple):
    """An entry in a preview image."""

    rank: str
    participant: str
    score: str


@lru_cache(PREVIEWS_MAX)
def draw_preview(title: str, subtitle: str, lines: Sequence[PreviewLine]) -> bytes:
    """Return a PNG with the first entries of a leaderboard.

    Pillow is imported when an image is drawn: most processes draw none.
    """
    from PIL import Image, ImageDraw

    width, height = PREVIEW_SIZE
    left, right = PREVIEW_MARGIN, width - PREVIEW_MARGIN
    image = Image.new("RGB", PREVIEW_SIZE, PAGE)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 24, height), fill=FIRST)
    draw.text((left, 50), "Warpboard", FIRST, _preview_font(34))
    draw.text((left, 115), title, TEXT, _fit_font(title, right - left, 64))
    draw.text((left, 200), subtitle, FAINT, _preview_font(44))
    if not lines:
        draw.text((left, 350), "No entry yet. Yours can be the first.", TEXT, _preview_font(40))
    font = _preview_font(40)
    for index, line in enumerate(lines):
        y = 310 + 90 * index
        draw.line((left, y - 20, right, y - 20), fill="#e4e4ea", width=2)
        score_width = font.getlength(line.score)
        draw.text((left, y), line.rank, FAINT, font)
        draw.text((right - score_width, y), line.score, TEXT, font)
        name_width = int(right - score_width - left - 120)
        draw.text(
            (left + 90, y), line.participant, TEXT, _fit_font(line.participant, name_width, 40)
        )
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _fit_font(text: str, width: int, size: int) -> "FreeTypeFont | ImageFont":
    """Return the largest font, up to a size, in which a text has at most a width."""
    length = _preview_font(size).getlength(text)
    return _preview_font(min(size, int(size * width / length)) if length else size)


@lru_cache(PREVIEWS_MAX)
def _preview_font(size: int) -> "FreeTypeFont | ImageFont":
    """Return a font of this machine, or that of Pillow, which has fewer characters."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype(FONT_FILE, size)
    except OSError:
        return ImageFont.load_default(size)
