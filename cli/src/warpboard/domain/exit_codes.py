"""The exit codes of commands."""

from collections.abc import Iterable

OK = 0
FAILED = 1
REFUSED = 2
INFRASTRUCTURE = 3
QUOTA = 4
NOT_RANKED = 5
INTERRUPTED = 130
UNREAD = 141
TERMINATED = 143
EXIT_CODES = """Exit codes: 0 passed or done, 1 not passed or the answer is no (an audit that
is not clean), 2 refused or wrong usage, 3 infrastructure (the platform cannot be reached,
it failed, or time is over), 4 your quota is used up, 5 passed but not eligible for the
leaderboard (mode ranked), 130 interrupted, 141 nobody reads stdout any more, 143 stopped."""
_SEVERITY = (OK, NOT_RANKED, FAILED, QUOTA, REFUSED, INFRASTRUCTURE)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code for several things done at once.

    >>> worst([0, 5, 1]), worst([])
    (1, 0)
    """
    return max(codes, key=_SEVERITY.index, default=OK)
