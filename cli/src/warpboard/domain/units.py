"""Numbers, instants and foreign text as the terminal shows them: as every place does."""

from shared.telling.units import (
    NOTHING,
    about_text,
    count_text,
    harmless,
    interval_text,
    null_text,
    one_line,
    seconds_text,
    time_text,
    when,
)

__all__ = [
    "NOTHING",
    "about_text",
    "count_text",
    "harmless",
    "interval_text",
    "null_text",
    "one_line",
    "seconds_text",
    "time_text",
    "when",
]
