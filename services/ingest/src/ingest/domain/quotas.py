"""Quotas: what an account may take of a bucket in a window of time, and what it took.

A bucket is `<problem>.<gpu>.<category>`; a limit may stand for many of them, by `*` for a part,
and holds for each of them alone. An account's own limits come before everybody's, and of several
that fit, the most specific one counts.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shared.decider import Decider
from shared.errors import Refused
from shared.events import Fact, QuotaLimitSet, QuotaReturned, QuotaTaken

EVERYBODY = "default"
CATEGORIES = {"test": "test", "benchmark": "test", "profile": "test", "ranked": "ranked"}
COST = 1
UNLIMITED = -1
LIMIT_MAX = 1_000_000
KEPT_S = 600.0
WINDOW_S_MIN, WINDOW_S_MAX = 1.0, 366 * 86400.0
PARTS = (
    re.compile(r"\*|[a-z0-9][a-z0-9_-]{0,94}"),
    re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_-]{0,39}"),
    re.compile(r"\*|test|ranked"),
)


@dataclass(frozen=True)
class Limit:
    """So much may be taken in each window; windows are counted from 1970 in UTC."""

    limit: int
    window_s: float


@dataclass(frozen=True)
class Taken:
    """What a submission took, until its window is over."""

    bucket: str
    cost: int
    until_at: datetime


@dataclass(frozen=True)
class Quota:
    """An account's quotas as their history tells them: own limits, and who took what."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    taken: Mapping[str, Taken] = field(default_factory=dict)


@dataclass(frozen=True)
class Balance:
    """What is left of a bucket; `reset_at` is when something comes back."""

    bucket: str
    limit: int
    used: int
    window_s: float
    reset_at: datetime

    @property
    def remaining(self) -> int:
        """How much may still be taken; a lowered limit leaves nothing, not less."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class SetLimit:
    """Limit a bucket, or a pattern of them; by UNLIMITED, lift every wider limit."""

    bucket: str
    limit: int
    window_s: float
    reason: str


def bucket(problem: str, gpu: str, mode: str) -> str:
    """What a submission takes of.

    >>> bucket("matmul", "H200", "benchmark")
    'matmul.H200.test'
    """
    return f"{problem}.{gpu}.{CATEGORIES[mode]}"


def decide(command: SetLimit, state: Mapping[str, Limit]) -> Sequence[Fact]:
    """The limit, unless it is so already. Errors: Refused for a bucket or numbers that are none."""
    parts = command.bucket.split(".")
    fits = len(parts) == len(PARTS) and all(
        pattern.fullmatch(part) for pattern, part in zip(PARTS, parts, strict=True)
    )
    if not fits:
        what = f"{command.bucket!r} is no bucket: write problem.gpu.category"
        raise Refused("invalid_request", f"{what}, or * for any of them", "bucket")
    if not UNLIMITED <= command.limit <= LIMIT_MAX:
        raise Refused("invalid_request", f"a limit is 0 to {LIMIT_MAX:,}", "limit")
    if not WINDOW_S_MIN <= command.window_s <= WINDOW_S_MAX:
        what = f"a window is {WINDOW_S_MIN:.0f} to {WINDOW_S_MAX:.0f} seconds long"
        raise Refused("invalid_request", what, "window_s")
    if state.get(command.bucket) == Limit(command.limit, command.window_s):
        return ()
    return (
        QuotaLimitSet(
            bucket=command.bucket,
            limit=command.limit,
            window_s=command.window_s,
            reason=command.reason,
        ),
    )


def evolve(state: Mapping[str, Limit], fact: Fact) -> Mapping[str, Limit]:
    """What an account's limits are after one more event."""
    if not isinstance(fact, QuotaLimitSet):
        return state
    return {**state, fact.bucket: Limit(fact.limit, fact.window_s)}


limits = Decider[SetLimit, Mapping[str, Limit], Fact]({}, decide, evolve)


def folded(state: Quota, facts: Iterable[Fact], at: datetime | None = None) -> Quota:
    """The quotas after these events, without what was over long before an instant.

    Long enough for everybody who is deciding just now, on clocks that differ a little.
    """
    own, taken = dict(state.limits), dict(state.taken)
    for fact in facts:
        match fact:
            case QuotaLimitSet():
                own[fact.bucket] = Limit(fact.limit, fact.window_s)
            case QuotaTaken():
                taken[fact.submission] = Taken(fact.bucket, fact.cost, fact.window_until_at)
            case QuotaReturned():
                taken.pop(fact.submission, None)
    if at is not None:
        since = at - timedelta(seconds=KEPT_S)
        taken = {name: one for name, one in taken.items() if one.until_at > since}
    return Quota(own, taken)


def limit_for(name: str, own: Quota, everybody: Quota) -> Limit | None:
    """The limit that counts for a bucket, None for no limit."""
    for quota in (own, everybody):
        fitting = [pattern for pattern in quota.limits if _fits(pattern, name)]
        if fitting:
            found = quota.limits[max(fitting, key=_specific)]
            return None if found.limit == UNLIMITED else found
    return None


def balance(name: str, own: Quota, everybody: Quota, at: datetime) -> Balance | None:
    """What is left of a bucket at an instant, None if it is not limited."""
    found = limit_for(name, own, everybody)
    if found is None:
        return None
    live = [one for one in own.taken.values() if one.bucket == name and one.until_at > at]
    until = min((one.until_at for one in live), default=window_end(at, found.window_s))
    return Balance(name, found.limit, sum(one.cost for one in live), found.window_s, until)


def balances(own: Quota, everybody: Quota, at: datetime) -> list[Balance]:
    """What is left of every bucket in use, and of the patterns that the others would fall under."""
    used = {one.bucket for one in own.taken.values() if one.until_at > at}
    names = sorted(used | own.limits.keys() | everybody.limits.keys())
    return [left for name in names if (left := balance(name, own, everybody, at))]


def take(
    wishes: Mapping[str, str], own: Quota, everybody: Quota, at: datetime
) -> Sequence[QuotaTaken]:
    """What submissions, each by its bucket, take of an account: all of it or, Refused, nothing."""
    found: list[QuotaTaken] = []
    for submission, name in wishes.items():
        left = balance(name, folded(own, found), everybody, at)
        if left is None:
            continue
        if left.remaining < COST:
            raise _exceeded(left, at)
        until = window_end(at, left.window_s)
        found.append(
            QuotaTaken(submission=submission, bucket=name, cost=COST, window_until_at=until)
        )
    return found


def _exceeded(left: Balance, at: datetime) -> Refused:
    if left.limit == 0:
        return Refused("quota_exceeded", f"{left.bucket} takes nothing from you: its limit is 0")
    wait_s = (left.reset_at - at).total_seconds()
    when = f"at {left.reset_at.isoformat(timespec='seconds')}, in {math.ceil(wait_s)} seconds"
    what = f"{left.used} of {left.limit} are used of {left.bucket}; the next one is free {when}"
    return Refused("quota_exceeded", what, retry_after_s=wait_s)


def window_end(at: datetime, window_s: float) -> datetime:
    """When the window that an instant lies in is over.

    >>> window_end(datetime(2026, 1, 2, 23, tzinfo=UTC), 86400).isoformat()
    '2026-01-03T00:00:00+00:00'
    """
    window, first = timedelta(seconds=window_s), datetime.fromtimestamp(0, UTC)
    return first + ((at - first) // window + 1) * window


def _fits(pattern: str, name: str) -> bool:
    """Whether a pattern stands for a bucket, or for a pattern that is no wider than itself."""
    pairs = zip(pattern.split("."), name.split("."), strict=True)
    return all(part in ("*", given) for part, given in pairs)


def _specific(pattern: str) -> tuple[int, list[bool]]:
    """How specific a pattern is: first by how many parts it names, then the earlier ones."""
    named = [part != "*" for part in pattern.split(".")]
    return sum(named), named
