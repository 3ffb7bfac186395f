"""The ways things end badly.

Refused: the core said no; the caller's matter, never retried.
Failed: the world did not work; the same thing may be tried again, a bounded number of times.
Conflict (shared.event_log): someone appended first; read and decide again.
Anything else is a bug: the process ends loudly and is restarted.
"""


class Refused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A command that the core turned down: `code` for programs, `reason` for people.

    `retry_after_s` is when it may well be granted, None if asking again is of no use.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        field: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s


class Failed(Exception):  # noqa: N818
    """Something outside did not work; what was being done may be done again."""
