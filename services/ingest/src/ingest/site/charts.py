"""Positions in charts, which the templates draw as inline SVG, and preview images of pages."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from math import ceil, floor, inf, log, log10
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from shared.api.agents import CanaryRun
from shared.api.cases import Baseline
from shared.api.leaderboards import Record
from shared.api.submissions import SubmissionLine
from shared.presentation.run_files import CaseSamples, counts, slow

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


class Segment(NamedTuple):
    """A line of a chart."""

    x1: float
    y1: float
    x2: float
    y2: float


class RecordPoint(NamedTuple):
    """A record in a chart."""

    x: float
    y: float
    record: Record


class LabelledLine(NamedTuple):
    """A horizontal line of a chart: a mark of the axis or a baseline."""

    y: float
    label: str | float


class RecordChart(NamedTuple):
    """The best score over time: a falling staircase; better scores are lower."""

    points: Sequence[RecordPoint]
    steps: Sequence[Segment]
    marks: Sequence[LabelledLine]
    baselines: Sequence[LabelledLine]
    first_at: datetime
    last_at: datetime


def draw_records(
    newest_first: Sequence[Record], baselines: Sequence[Baseline]
) -> RecordChart | None:
    """Return the chart of a leaderboard's newest records, None if there are fewer than two.

    A record that was invalidated is a point beside the staircase.
    """
    records = newest_first[:RECORDS_MAX][::-1]
    if len(records) < 2:
        return None
    scores_us = [record.score_us for record in records]
    near = [
        (baseline.name, baseline.score_us)
        for baseline in baselines
        if baseline.score_us is not None
        and min(scores_us) / BASELINE_RATIO_MAX < baseline.score_us
        and baseline.score_us < max(scores_us) * BASELINE_RATIO_MAX
    ]
    scale = make_scale([*scores_us, *(score_us for _, score_us in near)])

    xs = _spread_over_time([record.at for record in records])
    points = [
        RecordPoint(x, _find_height(scale, record.score_us), record)
        for x, record in zip(xs, records, strict=True)
    ]
    return RecordChart(
        points=points,
        steps=_draw_steps([(point.x, point.y) for point in points if point.record.is_standing]),
        marks=[LabelledLine(_find_height(scale, mark), mark) for mark in axis_marks(scale)],
        baselines=[LabelledLine(_find_height(scale, score_us), name) for name, score_us in near],
        first_at=records[0].at,
        last_at=records[-1].at,
    )


class ScorePoint(NamedTuple):
    """A ranked submission in a chart; `is_best` if it was its participant's best so far."""

    x: float
    y: float
    submission: SubmissionLine
    is_best: bool


class ProgressChart(NamedTuple):
    """The scores of a participant on a leaderboard over time, and a staircase through the best."""

    points: Sequence[ScorePoint]
    steps: Sequence[Segment]
    marks: Sequence[LabelledLine]


def draw_progress(newest_first: Sequence[SubmissionLine]) -> ProgressChart | None:
    """Return the chart of a participant's submissions, None if fewer than two have a score."""
    scored = [
        (submission.score_us, submission)
        for submission in newest_first[::-1]
        if submission.score_us is not None and submission.score_us > 0
    ]
    if len(scored) < 2:
        return None
    scale = make_scale(score_us for score_us, _ in scored)
    xs = _spread_over_time([submission.received_at for _, submission in scored])
    points: list[ScorePoint] = []
    best_us = inf
    for x, (score_us, submission) in zip(xs, scored, strict=True):
        is_best = submission.is_eligible and score_us < best_us
        best_us = score_us if is_best else best_us
        points.append(ScorePoint(x, _find_height(scale, score_us), submission, is_best))
    return ProgressChart(
        points=points,
        steps=_draw_steps([(point.x, point.y) for point in points if point.is_best]),
        marks=[LabelledLine(_find_height(scale, mark), mark) for mark in axis_marks(scale)],
    )


class CanaryPoint(NamedTuple):
    """A canary in a chart."""

    x: float
    y: float
    canary: CanaryRun


class CanaryChart(NamedTuple):
    """The canaries of an agent over time; slower ones are higher."""

    points: Sequence[CanaryPoint]
    marks: Sequence[LabelledLine]


def draw_canaries(newest_first: Sequence[CanaryRun]) -> CanaryChart | None:
    """Return the chart of an agent's canaries, None if there are fewer than two."""
    canaries = newest_first[::-1]
    if len(canaries) < 2:
        return None
    scale = make_scale([*CANARY_RATIOS, *(canary.ratio for canary in canaries)])
    xs = _spread_over_time([canary.at for canary in canaries])
    return CanaryChart(
        points=[
            # One that failed has no ratio, and is at the top.
            CanaryPoint(x, _find_height(scale, canary.ratio or scale.high), canary)
            for x, canary in zip(xs, canaries, strict=True)
        ],
        marks=[LabelledLine(_find_height(scale, mark), mark) for mark in axis_marks(scale)],
    )


def _spread_over_time(instants: Sequence[datetime]) -> list[float]:
    """Return the horizontal positions of instants, oldest first; equal ones keep their order."""
    first_at, span_s = instants[0], (instants[-1] - instants[0]).total_seconds()
    shares = (
        (at - first_at).total_seconds() / span_s if span_s else index / (len(instants) - 1)
        for index, at in enumerate(instants)
    )
    return [round(2 + 94 * share, 2) for share in shares]


def _find_height(scale: LogScale, time_us: float) -> float:
    return round(100 - scale.position(time_us), 2)


def _draw_steps(points: Sequence[tuple[float, float]]) -> list[Segment]:
    """Return the staircase through positions, oldest first."""
    steps = []
    for (x, y), (following_x, following_y) in pairwise(points):
        steps.append(Segment(x, y, following_x, y))
        steps.append(Segment(following_x, y, following_x, following_y))
    if points:
        last_x, last_y = points[-1]
        steps.append(Segment(last_x, last_y, 100.0, last_y))
    return steps


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
