"""The quotas that a leaderboard gives everybody, as its author and operators say them.

One is `ranked=10/day`, or `H100.ranked=2/hour` for one GPU type alone; each is a limit for a bucket
of that problem.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ingest.domain import quotas
from ingest.domain.quotas import UNLIMITED, Limit, SetLimit
from shared.decider import Decider
from shared.errors import Refused
from shared.events import Fact

QUOTAS_MAX = 32
NONE = "none"
WINDOWS_S = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
# What a limit that lifts all others gives in a second.
BOUNDLESS = math.inf

_QUOTA = re.compile(
    r"(?:(?P<gpu>[A-Za-z0-9][A-Za-z0-9_-]{0,39})\.)?(?P<category>test|ranked)"
    r"=(?:(?P<none>none)|(?P<limit>[0-9]{1,7})/(?P<window>[a-z]+|[0-9]{1,8}s))\Z"
)


def quota(slug: str, text: str, reason: str) -> SetLimit:
    """What a quota says. Errors: Refused, with the form that it has.

    >>> quota("copy", "H100.ranked=10/day", "r").bucket
    'copy.H100.ranked'
    """
    match = _QUOTA.match(text.strip())
    if match is None or not (match["none"] or _window_s(match["window"])):
        windows = ", ".join(WINDOWS_S)
        what = f"{text[:60]!r} is no quota: write ranked=10/day or H100.test=60/hour"
        raise Refused("invalid_request", f"{what}; of {windows} or seconds (600s)", "quotas")
    bucket = f"{slug}.{match['gpu'] or '*'}.{match['category']}"
    if match["none"]:
        return SetLimit(bucket, UNLIMITED, WINDOWS_S["day"], reason)
    return SetLimit(bucket, int(match["limit"]), _window_s(match["window"]), reason)


def _window_s(text: str) -> float:
    """How long a window is, 0 for what is none.

    >>> _window_s("day"), _window_s("90s"), _window_s("fortnight")
    (86400.0, 90.0, 0)
    """
    if text[:-1].isdecimal():
        return float(text[:-1])
    return WINDOWS_S.get(text, 0)


def shown(slug: str, limits: Mapping[str, Limit]) -> list[str]:
    """The quotas of a leaderboard, and those that hold for it among others, as they are said.

    >>> shown("copy", {"copy.*.ranked": Limit(10, 86400.0), "other.*.test": Limit(1, 60.0)})
    ['ranked=10/day']
    """
    found = {}
    # A star sorts before all that a name may begin with: what is said of the problem itself counts.
    for bucket, limit in sorted(limits.items()):
        problem, gpu, category = bucket.split(".")
        if problem in (slug, "*"):
            found[category if gpu == "*" else f"{gpu}.{category}"] = limit
    return [f"{name}={_amount(limit)}" for name, limit in found.items()]


def _amount(limit: Limit) -> str:
    if limit.limit == UNLIMITED:
        return NONE
    names = {seconds: name for name, seconds in WINDOWS_S.items()}
    return f"{limit.limit}/{names.get(limit.window_s, f'{limit.window_s:.0f}s')}"


def decide(commands: Sequence[SetLimit], state: Mapping[str, Limit]) -> Sequence[Fact]:
    """All of the limits that are not so already. Errors: Refused."""
    return [fact for command in commands for fact in quotas.decide(command, state)]


def decide_tighter(commands: Sequence[SetLimit], state: Mapping[str, Limit]) -> Sequence[Fact]:
    """The same by an author, who gives nobody more than there is. Errors: Refused."""
    for command in commands:
        given = Limit(command.limit, command.window_s)
        if given.limit == 0:
            what = f"0 for {command.bucket} takes nothing in, and you could not give more again"
            mend = "close the leaderboard by its deadline, or ask an operator"
            raise Refused("scope_missing", f"{what}: {mend} (scope admin:problems)", "quotas")
        # Any of them would count for some bucket, if this one did not.
        for bucket, limit in state.items():
            if _overlaps(bucket, command.bucket) and _is_more(given, limit):
                what = f"{command.bucket} would be given more than {bucket} has: {_amount(limit)}"
                how = "an operator sets it (scope admin:problems)"
                raise Refused("scope_missing", f"{what}; {how}", "quotas")
    return decide(commands, state)


def _is_more(given: Limit, there: Limit) -> bool:
    """Whether a limit gives more than another one in the long run, or more at once.

    >>> _is_more(Limit(70, 7 * 86400.0), Limit(10, 86400.0))
    True
    """
    return _rate(given) > _rate(there) or _count(given) > _count(there)


def _rate(limit: Limit) -> float:
    return _count(limit) / limit.window_s


def _count(limit: Limit) -> float:
    return BOUNDLESS if limit.limit == UNLIMITED else limit.limit


def _overlaps(one: str, other: str) -> bool:
    """Whether there may be a bucket that both stand for.

    >>> _overlaps("*.H100.ranked", "copy.*.ranked"), _overlaps("*.*.test", "copy.*.ranked")
    (True, False)
    """
    pairs = zip(one.split("."), other.split("."), strict=True)
    return all("*" in pair or pair[0] == pair[1] for pair in pairs)


def checked(commands: Sequence[SetLimit], gpus: Sequence[str]) -> tuple[SetLimit, ...]:
    """The quotas with their GPU types as the leaderboard writes them. Errors: Refused."""
    if len(commands) > QUOTAS_MAX:
        raise Refused("invalid_request", f"at most {QUOTAS_MAX} quotas at once", "quotas")
    spelling = {gpu.lower(): gpu for gpu in gpus} | {"*": "*"}
    found: list[SetLimit] = []
    for command in commands:
        problem, gpu, category = command.bucket.split(".")
        if gpu.lower() not in spelling:
            what = f"quota of {gpu}: the leaderboard has no such GPU type, but {', '.join(gpus)}"
            raise Refused("unknown_gpu", what, "quotas")
        bucket = f"{problem}.{spelling[gpu.lower()]}.{category}"
        if any(one.bucket == bucket for one in found):
            raise Refused("invalid_request", f"two quotas for {bucket}: say one", "quotas")
        found.append(replace(command, bucket=bucket))
    return tuple(found)


everybodys = Decider[Sequence[SetLimit], Mapping[str, Limit], Fact]({}, decide, quotas.evolve)
tighter = Decider[Sequence[SetLimit], Mapping[str, Limit], Fact]({}, decide_tighter, quotas.evolve)
