"""How much one may send in a while, as it is typed: `ranked=10/day`, `H100.test=60/hour`."""

import re

from shared.errors import Refused

WINDOWS_S = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
QUOTAS_MAX = 10
_LIMIT = re.compile(
    r"(?:(?P<gpu>[A-Za-z0-9][A-Za-z0-9_-]{0,39})\.)?(?P<category>test|ranked)"
    r"=(?:(?P<none>none)|(?P<count>[0-9]{1,7})/(?P<window>minute|hour|day|week))\Z"
)


def quotas(text: str) -> list[str]:
    """Several, apart by commas. Errors: Refused.

    >>> quotas("ranked=10/day, test=none")
    ['ranked=10/day', 'test=none']
    """
    found = [one.strip() for one in text.split(",") if one.strip()]
    if not 0 < len(found) <= QUOTAS_MAX:
        what = f"say 1 to {QUOTAS_MAX} quotas, apart by commas, such as ranked=10/day"
        raise Refused("bad_quota", what, "value")
    return found


def one_of(slug: str, text: str) -> dict[str, object]:
    """What the platform is told of one participant's quota. Errors: Refused.

    >>> one_of("copy", "H100.ranked=2/hour")
    {'bucket': 'copy.H100.ranked', 'limit': 2, 'window_s': 3600}
    >>> one_of("copy", "test=none")["limit"]
    """
    match = _LIMIT.match(text)
    if match is None:
        what = f"{text[:60]!r} is no quota: write ranked=10/day, H100.test=60/hour or test=none"
        raise Refused("bad_quota", f"{what}; of {', '.join(WINDOWS_S)}", "value")
    return {
        "bucket": f"{slug}.{match['gpu'] or '*'}.{match['category']}",
        "limit": None if match["none"] else int(match["count"]),
        "window_s": WINDOWS_S[match["window"] or "day"],
    }
