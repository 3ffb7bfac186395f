"""When others may read a source: by its version's policy, its deadline, and its owner's word."""

from datetime import datetime
from typing import NamedTuple

AFTER_CLOSE, ALWAYS = "after_close", "always"


class Source(NamedTuple):
    """What decides who reads a source, beside its owner and staff."""

    policy: str | None
    deadline_at: datetime | None
    is_withdrawn: bool | None
    is_consented: bool | None


def hidden(source: Source, at: datetime) -> str | None:
    """Why a source is not everybody's at an instant, and when it will be; None if it is.

    What is not known to be shown is not.

    >>> hidden(Source("owner", None, False, True), datetime(2026, 1, 1))
    'this leaderboard shows sources to their owners alone'
    """
    if source.is_withdrawn is not False:
        return "it was taken off its leaderboard"
    if not source.is_consented:
        return "its owner does not accept, or took back, what its leaderboard asks for"
    return _too_early(source.policy, source.deadline_at, at)


def _too_early(policy: str | None, deadline_at: datetime | None, at: datetime) -> str | None:
    if policy == ALWAYS:
        return None
    if policy != AFTER_CLOSE:
        return "this leaderboard shows sources to their owners alone"
    if deadline_at is None:
        return "everybody sees it once the leaderboard's deadline is over, and it has none yet"
    if deadline_at > at:
        return f"everybody sees it from {deadline_at.isoformat()} on, when the deadline is over"
    return None


def policy_text(policy: str, deadline_at: datetime | None) -> str:
    """The policy as participants read it.

    >>> policy_text("always", None)
    'a source is seen by all at once, if it is ranked'
    """
    if policy == ALWAYS:
        return "a source is seen by all at once, if it is ranked"
    if policy != AFTER_CLOSE:
        return "a source is seen by its owner alone"
    if deadline_at is None:
        return "a source is seen by its owner alone, until there is a deadline and it is over"
    return f"a source is seen by its owner alone until {deadline_at.isoformat()}, then by all"
