"""Quotas: how much an account may use of a bucket in a time window, and how much it used.

A bucket is `<problem>.<gpu>.<category>`. A limit may cover many buckets with `*` for a part, and
applies to each of them separately. An account's own limits override those of its roles, which
override everybody's; among several that match, the most specific one counts. Of several roles with
a limit for a bucket, the one that allows the most counts.

The same history counts the submissions of an account that are not over. An end is an event of the
submission, so the count is at least the true one; who meets the limit looks for ends first.

Authors and operators set quotas for everybody on a leaderboard. Such a quota is written
`ranked=10/day`, or `H100.ranked=2/hour` for one GPU type; each one limits a bucket of that problem.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

from msgspec import structs

from harness.vocabulary import SUBMISSION_MODES
from shared.api.quotas import Balance
from shared.contests.definition import Contest, Phase, phase_names
from shared.errors import Refused
from shared.event_log import Decider
from shared.events import (
    LIMIT_MAX,
    UNLIMITED,
    Fact,
    QuotaLimitSet,
    QuotaReturned,
    QuotaShared,
    QuotaTaken,
    SubmissionsOpened,
)

DAY_S = 86400.0
CATEGORIES = dict.fromkeys(SUBMISSION_MODES, "test") | {"ranked": "ranked"}
COST = 1
KEPT_S = 600.0
# Runs take seconds to minutes, so one of many open submissions may end soon.
OPEN_RETRY_S = 5.0
WINDOW_S_MIN, WINDOW_S_MAX = 1.0, 366 * 86400.0
# The window of a contestant's limits.
WHOLE_PHASE_S = 0.0
_GPU = "[A-Za-z0-9][A-Za-z0-9_-]{0,39}"
_CATEGORY = "test|ranked"
PARTS = (
    re.compile(r"\*|[a-z0-9][a-z0-9_-]{0,94}"),
    re.compile(rf"\*|{_GPU}"),
    re.compile(rf"\*|{_CATEGORY}"),
)

QUOTAS_MAX = 32
NONE = "none"
WINDOWS_S = {"minute": 60.0, "hour": 3600.0, "day": DAY_S, "week": 7 * DAY_S}

_QUOTA = re.compile(
    rf"(?:(?P<gpu>{_GPU})\.)?(?P<category>{_CATEGORY})"
    r"=(?:(?P<none>none)|(?P<limit>[0-9]{1,7})/(?P<window>[a-z]+|[0-9]{1,8}s))\Z"
)


@dataclass(frozen=True)
class Limit:
    """The most that may be used in each window; windows are counted from 1970 in UTC."""

    limit: int
    window_s: float


# Limits in the order in which they override each other. Of several at one level, such as those of
# an account's roles, the one that allows the most counts.
LimitLevels: TypeAlias = Sequence[Sequence[Mapping[str, Limit]]]
# By account and bucket.
SharedLimits: TypeAlias = Mapping[str, Mapping[str, Limit]]


@dataclass(frozen=True)
class QuotaUse:
    """What one submission used, until its window ends."""

    bucket: str
    cost: int
    until_at: datetime


@dataclass(frozen=True)
class Quota:
    """The quotas of an account: its own limits, and what its submissions used.

    `opened` are its submissions that are not known to be over, oldest first. `shared_limits` are
    the own limits of the accounts that are part of it.
    """

    limits: Mapping[str, Limit] = field(default_factory=dict)
    taken: Mapping[str, QuotaUse] = field(default_factory=dict)
    opened: tuple[str, ...] = ()
    shared_limits: SharedLimits = field(default_factory=dict)


class QuotaExceeded(Refused):
    """A submission was refused because a quota is used up, with what is left of it."""

    def __init__(self, reason: str, balance: Balance, retry_after_s: float | None = None) -> None:
        super().__init__("quota_exceeded", reason, retry_after_s=retry_after_s)
        self.balance = balance


def bucket_name(problem: str, gpu: str, mode: str) -> str:
    """Return the bucket that a submission uses.

    >>> bucket_name("matmul", "H200", "benchmark")
    'matmul.H200.test'
    """
    return f"{problem}.{gpu}.{CATEGORIES[mode]}"


def _check_limit(command: QuotaLimitSet) -> None:
    parts = command.bucket.split(".")
    fits = len(parts) == len(PARTS) and all(
        pattern.fullmatch(part) for pattern, part in zip(PARTS, parts, strict=True)
    )
    if not fits:
        message = f"{command.bucket!r} is not a bucket: write problem.gpu.category"
        raise Refused("invalid_request", f"{message}, or * for any of them", "bucket")
    if not UNLIMITED <= command.limit <= LIMIT_MAX:
        raise Refused("invalid_request", f"a limit is 0 to {LIMIT_MAX:,}", "limit")
    if not WINDOW_S_MIN <= command.window_s <= WINDOW_S_MAX:
        message = f"a window is {WINDOW_S_MIN:.0f} to {WINDOW_S_MAX:.0f} seconds long"
        raise Refused("invalid_request", message, "window_s")


def decide(commands: Sequence[QuotaLimitSet], state: Mapping[str, Limit]) -> Sequence[Fact]:
    """Return the limits that differ from the current ones. Raises `Refused` for an invalid one."""
    for command in commands:
        _check_limit(command)
    return find_changes(commands, state)


def find_changes(
    commands: Sequence[QuotaLimitSet], state: Mapping[str, Limit]
) -> Sequence[QuotaLimitSet]:
    """Return the limits that differ from the current ones."""
    return [
        command
        for command in commands
        if state.get(command.bucket) != Limit(command.limit, command.window_s)
    ]


def evolve(state: Mapping[str, Limit], fact: Fact) -> Mapping[str, Limit]:
    """Return the limits of an account after one more event."""
    if not isinstance(fact, QuotaLimitSet):
        return state
    return {**state, fact.bucket: Limit(fact.limit, fact.window_s)}


def fold_uses(state: Quota, facts: Iterable[Fact], at: datetime | None = None) -> Quota:
    """Return the quotas after these events, without uses that expired long before `at`.

    The margin covers clocks that differ a little.
    """
    own_limits, taken = dict(state.limits), dict(state.taken)
    opened, shared_limits = dict.fromkeys(state.opened), state.shared_limits
    for fact in facts:
        match fact:
            case QuotaLimitSet():
                own_limits[fact.bucket] = Limit(fact.limit, fact.window_s)
                shared_limits = _without_limit(shared_limits, fact.bucket)
            case QuotaShared():
                taken = _shared_uses(fact) | taken
                limits = {it.bucket: Limit(it.limit, it.window_s) for it in fact.limits}
                shared_limits = {**shared_limits, fact.account: limits}
            case QuotaTaken():
                taken[fact.submission] = QuotaUse(fact.bucket, fact.cost, fact.window_until_at)
            case QuotaReturned():
                taken.pop(fact.submission, None)
                # Only what is over gets its quota back.
                opened.pop(fact.submission, None)
            case SubmissionsOpened():
                _open(opened, fact)
    if at is not None:
        since = at - timedelta(seconds=KEPT_S)
        taken = {name: use for name, use in taken.items() if use.until_at > since}
    return Quota(own_limits, taken, tuple(opened), shared_limits)


def _open(opened: dict[str, None], fact: SubmissionsOpened) -> None:
    opened |= dict.fromkeys(fact.submissions)
    for submission in fact.ended:
        opened.pop(submission, None)


def _shared_uses(fact: QuotaShared) -> dict[str, QuotaUse]:
    return {
        use.submission: QuotaUse(use.bucket, use.cost, use.window_until_at) for use in fact.uses
    }


def _without_limit(limits: SharedLimits, bucket: str) -> SharedLimits:
    """Return the limits without one that an operator has set for the participant as a whole."""
    return {
        account: {name: limit for name, limit in own.items() if name != bucket}
        for account, own in limits.items()
    }


def limit_for(name: str, levels: LimitLevels) -> Limit | None:
    """Return the limit that applies to a bucket, or None."""
    for level in levels:
        limits = [limit for limits in level if (limit := _most_specific(limits, name))]
        if limits:
            limit = max(limits, key=_allowance)
            return None if limit.limit == UNLIMITED else limit
    return None


def _most_specific(limits: Mapping[str, Limit], name: str) -> Limit | None:
    fitting = [pattern for pattern in limits if _fits(pattern, name)]
    return limits[max(fitting, key=_specificity)] if fitting else None


def _own_limit(name: str, own: Quota, general: LimitLevels) -> Limit | None:
    """Return the limit of an account; those of the accounts that are part of it hold, too."""
    limit = limit_for(name, [[own.limits], *general])
    for limits in own.shared_limits.values():
        shared_limit = _most_specific(limits, name)
        if shared_limit and (limit is None or _exceeds(limit, shared_limit)):
            limit = shared_limit
    return None if limit is None or limit.limit == UNLIMITED else limit


def balance(name: str, own: Quota, general: LimitLevels, at: datetime) -> Balance | None:
    """Return what is left of a bucket at a time, or None if it is unlimited.

    `general` are the limits below the account's own.
    """
    limit = _own_limit(name, own, general)
    if limit is None:
        return None
    live_uses = [use for use in own.taken.values() if use.bucket == name and use.until_at > at]
    reset_at = min((use.until_at for use in live_uses), default=window_end(at, limit.window_s))
    used = sum(use.cost for use in live_uses)
    return Balance(
        bucket=name,
        limit=limit.limit,
        used=used,
        # Never less than 0, even after the limit was lowered.
        remaining=max(0, limit.limit - used),
        window_s=limit.window_s,
        reset_at=reset_at,
    )


def balances(own: Quota, general: LimitLevels, at: datetime) -> list[Balance]:
    """Return what is left of every bucket in use, and of the patterns for the others."""
    used = {use.bucket for use in own.taken.values() if use.until_at > at}
    patterns = {pattern for level in general for limits in level for pattern in limits}
    names = sorted(used | own.limits.keys() | patterns)
    return [left for name in names if (left := balance(name, own, general, at))]


def take(
    buckets_by_submission: Mapping[str, str], own: Quota, general: LimitLevels, at: datetime
) -> Sequence[QuotaTaken]:
    """Return the uses of submissions, given with their buckets. Raises `Refused` if one fails."""
    taken: list[QuotaTaken] = []
    for submission, bucket in buckets_by_submission.items():
        left = balance(bucket, fold_uses(own, taken), general, at)
        if left is None:
            continue
        if left.remaining < COST:
            raise _quota_exceeded(left, at)
        window_end_at = window_end(at, left.window_s)
        taken.append(
            QuotaTaken(
                submission=submission, bucket=bucket, cost=COST, window_until_at=window_end_at
            )
        )
    return taken


class PhaseQuota(NamedTuple):
    """The quota of a contestant in a phase of a contest, and its uses at a version.

    It counts over the whole phase and all GPU types, so a moved phase gives nobody more, and
    neither does a new team: it begins with the most that one of its members has used before, alone
    or in other teams (`uses_before`, by member). `key` is the id of its history. A limit that
    operators set for the contestant overrides that of the phase.
    """

    key: str
    contest: Contest
    phase: Phase
    uses: Quota
    version: int
    uses_before: Sequence[Sequence[Quota]] = ()

    @property
    def phase_name(self) -> str:
        """The name of the phase in buckets."""
        return phase_names(self.contest)[self.contest.phases.index(self.phase)]

    def balance(self, bucket: str, uses: Quota) -> Balance | None:
        """Return what is left of a bucket, or None if it is unlimited."""
        phase_limits = {
            f"*.{self.phase_name}.{category}": Limit(limit, WHOLE_PHASE_S)
            for category, limit in self.phase.quotas.items()
        }
        limit = _most_specific(uses.limits, bucket) or _most_specific(phase_limits, bucket)
        if limit is None or limit.limit == UNLIMITED:
            return None
        before = (_count_uses(bucket, quotas) for quotas in self.uses_before)
        used = _count_uses(bucket, [uses]) + max(before, default=0)
        ends_at = self.phase.ends_at or forever_at()
        return Balance(
            bucket=bucket,
            limit=limit.limit,
            used=used,
            remaining=max(0, limit.limit - used),
            window_s=(ends_at - self.phase.starts_at).total_seconds(),
            reset_at=ends_at,
            contest=self.contest.slug,
        )


def _count_uses(bucket: str, quotas: Iterable[Quota]) -> int:
    uses = (use for quota in quotas for use in quota.taken.values())
    return sum(use.cost for use in uses if use.bucket == bucket)


def forever_at() -> datetime:
    """Return until when uses of a phase count, since its times may be moved."""
    return datetime(9999, 1, 1, tzinfo=UTC)


def phase_bucket(problem: str, phase: str, category: str) -> str:
    """Return the bucket that a submission uses in a phase of a contest.

    >>> phase_bucket("matmul", "main", CATEGORIES["benchmark"])
    'matmul.main.test'
    """
    return f"{problem}.{phase}.{category}"


def take_in_phase(submissions: Mapping[str, str], quota: PhaseQuota) -> Sequence[QuotaTaken]:
    """Return the uses of submissions, given with their buckets. Raises `Refused` if one fails."""
    taken: list[QuotaTaken] = []
    for submission, bucket in submissions.items():
        left = quota.balance(bucket, fold_uses(quota.uses, taken))
        if left is None:
            continue
        if left.remaining < COST:
            message = (
                f"{left.used} of {left.limit} of {bucket} are used in the phase "
                f"{quota.phase_name} of {quota.contest.title}: a contestant has so many in the "
                "whole phase"
            )
            raise QuotaExceeded(message, left)
        taken.append(
            QuotaTaken(
                submission=submission, bucket=bucket, cost=COST, window_until_at=forever_at()
            )
        )
    return taken


def open_submissions(
    submissions: Iterable[str], own: Quota, ended: Collection[str], open_max: int
) -> SubmissionsOpened:
    """Return the event that counts new submissions as open.

    Raises `Refused` (`too_many_open`) if more than `open_max` would be open.
    """
    new = list(submissions)
    open_count = sum(submission not in ended for submission in own.opened)
    if open_count + len(new) > open_max:
        more = "" if len(new) == 1 else f", and this request has {len(new)}"
        message = (
            f"{open_count} of your submissions are not over yet, and at most {open_max} may be "
            f"at once{more}: wait until some have ended, or cancel some"
        )
        raise Refused("too_many_open", message, retry_after_s=OPEN_RETRY_S)
    return SubmissionsOpened(submissions=new, ended=[it for it in own.opened if it in ended])


def _quota_exceeded(left: Balance, at: datetime) -> QuotaExceeded:
    if left.limit == 0:
        return QuotaExceeded(f"you cannot use {left.bucket}: its limit is 0", left)
    wait_s = (left.reset_at - at).total_seconds()
    when = f"at {left.reset_at.isoformat(timespec='seconds')}, in {math.ceil(wait_s)} seconds"
    message = f"{left.used} of {left.limit} of {left.bucket} are used; the next one is free {when}"
    return QuotaExceeded(message, left, wait_s)


def window_end(at: datetime, window_s: float) -> datetime:
    """Return the end of the window that contains a time.

    >>> window_end(datetime(2026, 1, 2, 23, tzinfo=UTC), 86400).isoformat()
    '2026-01-03T00:00:00+00:00'
    """
    window, first = timedelta(seconds=window_s), datetime.fromtimestamp(0, UTC)
    return first + ((at - first) // window + 1) * window


def _fits(pattern: str, name: str) -> bool:
    """Return whether a pattern covers a bucket, or a pattern no wider than itself."""
    pairs = zip(pattern.split("."), name.split("."), strict=True)
    return all(part in ("*", other_part) for part, other_part in pairs)


def _specificity(pattern: str) -> tuple[int, list[bool]]:
    """Return the rank of a pattern: the number of parts it names, then which ones."""
    named_parts = [part != "*" for part in pattern.split(".")]
    return sum(named_parts), named_parts


def parse_quota(slug: str, text: str, reason: str) -> QuotaLimitSet:
    """Parse a quota. Raises `Refused`, showing the expected form.

    >>> parse_quota("copy", "H100.ranked=10/day", "r").bucket
    'copy.H100.ranked'
    """
    match = _QUOTA.match(text.strip())
    if match is None or not (match["none"] or _window_s(match["window"])):
        windows = ", ".join(WINDOWS_S)
        message = f"{text[:60]!r} is not a quota: write ranked=10/day or H100.test=60/hour"
        message += f"; windows are {windows} or seconds (600s)"
        raise Refused("invalid_request", message, "quotas")
    bucket = f"{slug}.{match['gpu'] or '*'}.{match['category']}"
    limit, window_s = UNLIMITED, WINDOWS_S["day"]
    if not match["none"]:
        limit, window_s = int(match["limit"]), _window_s(match["window"])
    return QuotaLimitSet(bucket=bucket, limit=limit, window_s=window_s, reason=reason)


def _window_s(text: str) -> float:
    """Return the length of a window in seconds, 0 if it is not a window.

    >>> _window_s("day"), _window_s("90s"), _window_s("fortnight")
    (86400.0, 90.0, 0)
    """
    if text[:-1].isdecimal():
        return float(text[:-1])
    return WINDOWS_S.get(text, 0)


def format_quotas(slug: str, limits: Mapping[str, Limit]) -> list[str]:
    """Format the quotas of a leaderboard, including those that apply to every problem.

    >>> format_quotas("copy", {"copy.*.ranked": Limit(10, 86400.0), "other.*.test": Limit(1, 60.0)})
    ['ranked=10/day']
    """
    limits_by_name = {}
    # "*" sorts before every name, so limits of the problem itself overwrite general ones.
    for bucket, limit in sorted(limits.items()):
        problem, gpu, category = bucket.split(".")
        if problem in (slug, "*"):
            limits_by_name[category if gpu == "*" else f"{gpu}.{category}"] = limit
    return [f"{name}={_amount(limit)}" for name, limit in limits_by_name.items()]


def _amount(limit: Limit) -> str:
    if limit.limit == UNLIMITED:
        return NONE
    names = {seconds: name for name, seconds in WINDOWS_S.items()}
    return f"{limit.limit}/{names.get(limit.window_s, f'{limit.window_s:.0f}s')}"


def decide_tighter(commands: Sequence[QuotaLimitSet], state: Mapping[str, Limit]) -> Sequence[Fact]:
    """Decide as an author, who may only lower what participants have. Raises `Refused`."""
    for command in commands:
        requested = Limit(command.limit, command.window_s)
        if requested.limit == 0:
            message = (
                f"a limit of 0 for {command.bucket} closes it, and you could not raise it again: "
                "set a deadline instead, or ask an operator (scope admin:problems)"
            )
            raise Refused("scope_missing", message, "quotas")
        # Each of these limits applies to some bucket that the new one would override.
        for bucket, limit in state.items():
            if _overlaps(bucket, command.bucket) and _exceeds(requested, limit):
                message = f"{command.bucket} would get more than {bucket} allows: {_amount(limit)}"
                how = "ask an operator (scope admin:problems)"
                raise Refused("scope_missing", f"{message}; {how}", "quotas")
    return decide(commands, state)


def _exceeds(requested: Limit, existing: Limit) -> bool:
    """Return whether a limit allows more than another, in the long run or at once.

    >>> _exceeds(Limit(70, 7 * 86400.0), Limit(10, 86400.0))
    True
    """
    pairs = zip(_allowance(requested), _allowance(existing), strict=True)
    return any(more > less for more, less in pairs)


def _allowance(limit: Limit) -> tuple[float, float]:
    """Return how much a limit allows: per second in the long run, and at once."""
    at_once = math.inf if limit.limit == UNLIMITED else limit.limit
    return at_once / limit.window_s, at_once


def _overlaps(first: str, second: str) -> bool:
    """Return whether a bucket may match both patterns.

    >>> _overlaps("*.H100.ranked", "copy.*.ranked"), _overlaps("*.*.test", "copy.*.ranked")
    (True, False)
    """
    pairs = zip(first.split("."), second.split("."), strict=True)
    return all("*" in pair or pair[0] == pair[1] for pair in pairs)


def check_quotas(
    commands: Sequence[QuotaLimitSet], gpus: Sequence[str]
) -> tuple[QuotaLimitSet, ...]:
    """Return the quotas with GPU types spelled as on the leaderboard. Raises `Refused`."""
    if len(commands) > QUOTAS_MAX:
        raise Refused("invalid_request", f"at most {QUOTAS_MAX} quotas at once", "quotas")
    spelling = {gpu.lower(): gpu for gpu in gpus} | {"*": "*"}
    checked_commands: list[QuotaLimitSet] = []
    for command in commands:
        problem, gpu, category = command.bucket.split(".")
        if gpu.lower() not in spelling:
            message = f"quota for {gpu}: the leaderboard has only the GPU types {', '.join(gpus)}"
            raise Refused("unknown_gpu", message, "quotas")
        bucket = f"{problem}.{spelling[gpu.lower()]}.{category}"
        if any(other.bucket == bucket for other in checked_commands):
            raise Refused("invalid_request", f"two quotas for {bucket}: send one", "quotas")
        checked_commands.append(structs.replace(command, bucket=bucket))
    return tuple(checked_commands)


def check_contestant_limit(command: QuotaLimitSet, contest: Contest) -> None:
    """Check an operator's limit for a contestant: `problem.phase.category`. Raises `Refused`."""
    parts = command.bucket.split(".")
    problem, phase, category = parts if len(parts) == len(PARTS) else ("", "", "")
    choices = (
        (problem, [entered.slug for entered in contest.problems], "problem"),
        (phase, phase_names(contest), "phase"),
        (category, _CATEGORY.split("|"), "category"),
    )
    for part, names, place in choices:
        if part not in ("*", *names):
            message = f"{command.bucket!r} is not problem.phase.category: expected as {place} of "
            message += f"{contest.slug} {', '.join(names)} or *"
            raise Refused("invalid_request", message, "bucket")
    if not UNLIMITED <= command.limit <= LIMIT_MAX:
        raise Refused("invalid_request", f"a limit is 0 to {LIMIT_MAX:,}", "limit")


OPERATOR_DECIDER = Decider[Sequence[QuotaLimitSet], Mapping[str, Limit], Fact]({}, decide, evolve)
CONTESTANT_DECIDER = Decider[Sequence[QuotaLimitSet], Mapping[str, Limit], Fact](
    {}, find_changes, evolve
)
AUTHOR_DECIDER = Decider[Sequence[QuotaLimitSet], Mapping[str, Limit], Fact](
    {}, decide_tighter, evolve
)
