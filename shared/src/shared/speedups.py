"""Speed-ups over a yardstick, with their intervals."""

from collections.abc import Sequence
from typing import Any


def speedup_fields(
    yardstick_us: float | None, time_us: float | None, interval_us: Sequence[float] | None
) -> dict[str, Any]:
    """Return how many times as fast as the yardstick a time is, with its 95 % interval.

    Both are None if the time was not measured against a yardstick.

    >>> speedup_fields(30.0, 15.0, (12.0, 20.0))
    {'yardstick_us': 30.0, 'speedup': 2.0, 'speedup_interval': (1.5, 2.5)}
    >>> speedup_fields(None, 15.0, (12.0, 20.0))["speedup"]
    """
    speedup, interval = None, None
    if yardstick_us and time_us and time_us > 0:
        speedup = yardstick_us / time_us
        if interval_us and interval_us[0] > 0:
            low_us, high_us = interval_us
            interval = (yardstick_us / high_us, yardstick_us / low_us)
    return {"yardstick_us": yardstick_us, "speedup": speedup, "speedup_interval": interval}
