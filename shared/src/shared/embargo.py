"""When the submissions of a problem are published."""

from datetime import datetime
from typing import Final

AFTER_CLOSE: Final = "after_close"
ALWAYS: Final = "always"


def is_published(publish: str, deadline_at: datetime | None, at: datetime | None) -> bool:
    """Return whether submissions to a version with this setting are public at a time.

    >>> is_published("always", None, None), is_published("after_close", None, None)
    (True, False)
    """
    is_over = deadline_at is not None and at is not None and deadline_at <= at
    return publish == ALWAYS or (publish == AFTER_CLOSE and is_over)
