"""Format numbers, instants, ranks, duels and foreign text for people."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from math import log

NO_VALUE = "-"
_SIZES_US = (("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6))


def time_text(time_us: float | None) -> str:
    """Format a time in a suitable unit, to four significant digits.

    Units: microseconds in.

    >>> time_text(12.3), time_text(4560), time_text(999.96), time_text(None)
    ('12.3 µs', '4.56 ms', '1 ms', '-')
    """
    if time_us is None or not math.isfinite(time_us):
        return NO_VALUE
    value = 0.0
    for unit, size_us in _SIZES_US:
        value = float(f"{time_us / size_us:.4g}")
        if abs(value) < 1000:
            return f"{value:g} {unit}"
    return f"{value:,.0f} s"


def spread_text(time_us: float | None, interval_us: Sequence[float] | None) -> str:
    """Format a time with its uncertainty, in one unit.

    >>> spread_text(12.3, (12.1, 12.45)), spread_text(12.3, None), spread_text(None, None)
    ('12.3 ± 0.17 µs', '12.3 µs', '-')
    """
    text = time_text(time_us)
    if interval_us is None or text == NO_VALUE:
        return text
    number, _, unit = text.partition(" ")
    low, high = interval_us
    uncertainty = (high - low) / 2 / dict(_SIZES_US)[unit]
    return (
        f"{number} ± {float(f'{uncertainty:.2g}'):g} {unit}" if math.isfinite(uncertainty) else text
    )


def interval_text(interval_us: Sequence[float] | None) -> str:
    """Format a time's interval.

    >>> interval_text((12.3, 12.41))
    '12.3 µs to 12.41 µs'
    """
    if interval_us is None:
        return NO_VALUE
    low, high = interval_us
    return f"{time_text(low)} to {time_text(high)}"


def null_text(null_us: Sequence[float]) -> str:
    """Format the overhead of an empty call: its median, and the range of 8 in 10.

    >>> null_text((10.0, 12.0, 15.0)), null_text(())
    ('12 µs (10 µs to 15 µs)', '-')
    """
    if len(null_us) != 3:
        return NO_VALUE
    low, median, high = null_us
    return f"{time_text(median)} ({interval_text((low, high))})"


def seconds_text(seconds: float) -> str:
    """Format a duration.

    >>> seconds_text(8.43), seconds_text(72.0)
    ('8.4 s', '1 min 12 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_s = divmod(round(seconds), 60)
    return f"{minutes} min {remaining_s:02d} s"


def about_text(seconds: float | None) -> str:
    """Format an estimated duration.

    >>> about_text(0.2), about_text(41.7), about_text(400.0), about_text(9000.0), about_text(None)
    ('at once', '42 s', '7 min', '2.5 h', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return NO_VALUE
    if seconds < 1:
        return "at once"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"


def instant_text(at: datetime | None, zone: tzinfo | None = None) -> str:
    """Format an instant in a time zone, by default the local one, and name the zone.

    >>> from datetime import UTC
    >>> instant_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), UTC)
    '2026-01-02 03:04:05 UTC'
    """
    return NO_VALUE if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def count_text(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun; `plural` is given if it is not the noun with an s.

    >>> count_text(1, "agent"), count_text(2, "case"), count_text(2, "entry", "entries")
    ('1 agent', '2 cases', '2 entries')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def escape_control_characters(text: str) -> str:
    r"""Escape control characters in foreign text, so that a terminal does not obey them.

    >>> escape_control_characters("red \x1b[31m\nnext")
    'red \\x1b[31m\nnext'
    """
    return "".join(
        character
        if character in "\n\t" or character.isprintable()
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")
_LONG_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d{5,}(?:e[+-]?\d+)?(?![\w.])")
DIGITS_MIN = 5


def shorten_floats(line: str) -> str:
    """Shorten long floats in a line to five significant digits, or as many as tell them apart.

    >>> shorten_floats("at [0]: got 1.2345678806304932, expected 1.5")
    'at [0]: got 1.2346, expected 1.5'
    >>> shorten_floats("got 1.0000001192092896, expected 1.0")
    'got 1.0000001, expected 1.0'
    """
    numbers = set(map(float, _FLOAT.findall(line)))
    digits = DIGITS_MIN
    while len({f"{number:.{digits}g}" for number in numbers}) < len(numbers):
        digits += 1
    return _LONG_FLOAT.sub(lambda match: f"{float(match[0]):.{digits}g}", line)


def one_line(text: str, length_max: int = 200) -> str:
    r"""Format text for a table cell: escaped, without line breaks, cut to a length.

    >>> one_line("a\n  b", 3), one_line("abcdef", 4)
    ('a b', 'abc…')
    """
    joined = " ".join(escape_control_characters(text).split())
    return joined if len(joined) <= length_max else joined[: length_max - 1] + "…"


TRACEBACK = "Traceback (most recent call last):"


def first_line(text: str, length_max: int = 200) -> str:
    r"""Format the first line of a text for a table cell, and of an error what precedes its frames.

    >>> first_line("a\nb"), first_line("check failed: Traceback (most recent call last):\n  File")
    ('a', 'check failed')
    """
    first = text.partition("\n")[0]
    return one_line(first.removesuffix(TRACEBACK).removesuffix(": "), length_max)


def mark_diff_lines(diff: str) -> list[tuple[str, str]]:
    r"""Return the lines of a diff with their kinds: added, removed, place, or "".

    >>> mark_diff_lines("@@ -1 +1 @@\n-a\n+b\n c")
    [('place', '@@ -1 +1 @@'), ('removed', '-a'), ('added', '+b'), ('', ' c')]
    """
    kinds = (("+++", "place"), ("---", "place"), ("@@", "place"), ("+", "added"), ("-", "removed"))
    lines = [escape_control_characters(line) for line in diff.splitlines()]
    return [
        (next((kind for mark, kind in kinds if line.startswith(mark)), ""), line) for line in lines
    ]


NUMBERS_MAX = 6
EN_DASH = "\N{EN DASH}"
# Why several entries share a rank.
TIED_LEGEND = "the intervals of these entries overlap, or their sources are equal"
# Why an entry has several ranks.
RANGE_LEGEND = "the time is noisy, and its interval overlaps those of these ranks"


def untested_text(gpus: Iterable[str]) -> str:
    """Say on which GPU types a problem was not run before it was published.

    >>> untested_text(["H100", "B200"])
    'this problem was not run on H100, B200 before it was published'
    """
    return f"this problem was not run on {', '.join(gpus)} before it was published"


def rank_text(rank: int, best_rank: int | None = None, *, is_tied: bool) -> str:
    """Return a rank for display; `=` means that others share it. A noisy time has several.

    >>> rank_text(1, is_tied=True), rank_text(3, is_tied=False)
    ('1=', '3')
    >>> rank_text(5, best_rank=2, is_tied=True) == f"2{EN_DASH}5"
    True
    """
    if best_rank is not None:
        return f"{best_rank}{EN_DASH}{rank}"
    return f"{rank}=" if is_tied else str(rank)


def pooled_text(numbers: Sequence[int]) -> str:
    """Return which submissions a score is pooled over, as a suffix; empty for a single run.

    >>> pooled_text([47, 62]), pooled_text([47])
    (', pooled over #47, #62', '')
    >>> pooled_text(range(1, 41))
    ', pooled over #1, #2, #3, #4, #5, #6 and 34 more'
    """
    return f", pooled over {numbers_text(numbers)}" if len(numbers) > 1 else ""


def numbers_text(numbers: Sequence[int]) -> str:
    """Return submission numbers, shortened to the first few.

    >>> numbers_text([47, 62])
    '#47, #62'
    """
    listed_numbers = ", ".join(f"#{number}" for number in numbers[:NUMBERS_MAX])
    more = len(numbers) - NUMBERS_MAX
    return f"{listed_numbers} and {more} more" if more > 0 else listed_numbers


def difference_text(ratio: float, interval: tuple[float, float]) -> str:
    """Return by how much the faster side is faster, as a share of the slower one's time.

    `ratio` is one side's time divided by the other's, with its interval.

    >>> difference_text(0.996, (0.995, 0.997)), difference_text(2.0, (1.99, 2.01))
    ('0.4 % ± 0.1 %', '50 % ± 0.5 %')
    """
    share = 1 - min(ratio, 1 / ratio)
    low, high = interval
    return f"{100 * share:.2g} % ± {50 * log(high / low):.2g} %"
