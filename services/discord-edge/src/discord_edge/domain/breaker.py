"""Leaves off asking Discord for what it keeps refusing, long before it would shut the bot out."""

import re
from collections import deque
from dataclasses import dataclass, field

# Discord shuts an address out for 10 000 of these in ten minutes.
INVALID = frozenset({401, 403, 429})
WINDOW_S = 600.0
ROUTE_MAX, ALL_MAX = 100, 2000
# Whoever waits for an answer is told that there is trouble, whatever else is left off.
FREE = "POST /interactions"

_ID = re.compile(r"\d{15,}")
_SECRET_LENGTH_MIN = 40


def route(method: str, path: str) -> str:
    """What a request counts as: its method, its path and the first thing that it is about.

    >>> route("PATCH", "/api/v10/channels/123456789012345678/messages/223456789012345678")
    'PATCH /channels/123456789012345678/messages/*'
    >>> route("POST", "/api/v10/webhooks/123456789012345678/" + "a" * 60)
    'POST /webhooks/123456789012345678/*'
    """
    parts, ids = [], 0
    for part in re.sub(r"^/api/v\d+", "", path).split("/"):
        is_id = bool(_ID.fullmatch(part))
        ids += is_id
        is_hidden = (is_id and ids > 1) or len(part) >= _SECRET_LENGTH_MIN
        parts.append("*" if is_hidden else part)
    return f"{method} {'/'.join(parts)}"


@dataclass
class Breaker:
    """Counts what was refused in the last ten minutes, by route; times are seconds of one clock."""

    _refused: dict[str, deque[float]] = field(default_factory=dict)
    _all: deque[float] = field(default_factory=deque)

    def saw(self, where: str, status: int, at: float) -> bool:
        """Count an answer; whether it was the one after which the route is left off."""
        if status not in INVALID:
            return False
        was_shut = self.is_shut(where, at)
        self._refused.setdefault(where, deque()).append(at)
        self._all.append(at)
        return self.is_shut(where, at) and not was_shut

    def is_shut(self, where: str, at: float) -> bool:
        """Whether a route is to be left alone for now."""
        self._forget(at)
        if where.startswith(FREE):
            return False
        return len(self._all) >= ALL_MAX or len(self._refused.get(where, ())) >= ROUTE_MAX

    def _forget(self, at: float) -> None:
        while self._all and at - self._all[0] > WINDOW_S:
            self._all.popleft()
        for where in [one for one, seen in self._refused.items() if at - seen[0] > WINDOW_S]:
            seen = self._refused[where]
            while seen and at - seen[0] > WINDOW_S:
                seen.popleft()
            if not seen:
                del self._refused[where]
