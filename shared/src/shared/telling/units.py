"""Numbers, instants and foreign text as people read them."""

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo

NOTHING = "-"
_SIZES_US = (("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6))


def time_text(time_us: float | None) -> str:
    """A time in the unit that suits it, to four significant digits.

    Units: microseconds in.

    >>> time_text(12.3), time_text(4560), time_text(999.96), time_text(None)
    ('12.3 µs', '4.56 ms', '1 ms', '-')
    """
    if time_us is None or not math.isfinite(time_us):
        return NOTHING
    shown = 0.0
    for unit, size_us in _SIZES_US:
        shown = float(f"{time_us / size_us:.4g}")
        if abs(shown) < 1000:
            return f"{shown:g} {unit}"
    return f"{shown:,.0f} s"


def spread_text(time_us: float | None, interval_us: Sequence[float] | None) -> str:
    """A time and how far off it may be, in one unit.

    >>> spread_text(12.3, (12.1, 12.45)), spread_text(12.3, None), spread_text(None, None)
    ('12.3 ± 0.17 µs', '12.3 µs', '-')
    """
    text = time_text(time_us)
    if interval_us is None or text == NOTHING:
        return text
    number, _, unit = text.partition(" ")
    low, high = interval_us
    off = (high - low) / 2 / dict(_SIZES_US)[unit]
    return f"{number} ± {float(f'{off:.2g}'):g} {unit}" if math.isfinite(off) else text


def interval_text(interval_us: Sequence[float] | None) -> str:
    """A time's interval, from its lower to its upper end.

    >>> interval_text((12.3, 12.41))
    '12.3 µs to 12.41 µs'
    """
    if interval_us is None:
        return NOTHING
    low, high = interval_us
    return f"{time_text(low)} to {time_text(high)}"


def null_text(null_us: Sequence[float]) -> str:
    """The hand-over of a call with nothing in it: its median, and where 8 of 10 lie.

    >>> null_text((10.0, 12.0, 15.0)), null_text(())
    ('12 µs (10 µs to 15 µs)', '-')
    """
    if len(null_us) != 3:
        return NOTHING
    low, middle, high = null_us
    return f"{time_text(middle)} ({interval_text((low, high))})"


def seconds_text(seconds: float) -> str:
    """A duration as one says it.

    >>> seconds_text(8.43), seconds_text(72.0)
    ('8.4 s', '1 min 12 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def about_text(seconds: float | None) -> str:
    """How long something may take, as an estimate is said.

    >>> about_text(0.2), about_text(41.7), about_text(400.0), about_text(9000.0), about_text(None)
    ('at once', '42 s', '7 min', '2.5 h', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 1:
        return "at once"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"


def when(at: datetime | None, zone: tzinfo | None = None) -> str:
    """An instant on the clock of a zone, by default that of this machine.

    >>> from datetime import UTC
    >>> when(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), UTC)
    '2026-01-02 03:04:05'
    """
    return NOTHING if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def count_text(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun; the plural if it is not the noun with an s.

    >>> count_text(1, "agent"), count_text(2, "case"), count_text(2, "entry", "entries")
    ('1 agent', '2 cases', '2 entries')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def harmless(text: str) -> str:
    r"""Foreign text with its control characters shown instead of obeyed by a terminal.

    >>> harmless("red \x1b[31m\nnext")
    'red \\x1b[31m\nnext'
    """
    return "".join(c if c in "\n\t" or c.isprintable() else _shown(c) for c in text)


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str, length_max: int = 200) -> str:
    r"""Text for a cell of a table: harmless, without line breaks, cut to a length.

    >>> one_line("a\n  b", 3), one_line("abcdef", 4)
    ('a b', 'abc…')
    """
    joined = " ".join(harmless(text).split())
    return joined if len(joined) <= length_max else joined[: length_max - 1] + "…"
