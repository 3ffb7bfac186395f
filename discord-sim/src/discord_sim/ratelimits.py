"""Buckets as Discord announces them in headers, and the limit over all requests."""

import time
import zlib
from collections import deque
from dataclasses import dataclass, field

from discord_sim.errors import ApiError

DEFAULT = (50, 1.0)
GLOBAL_MAX, GLOBAL_S = 50, 1.0
# Without it discord.py takes a 429 for a proxy's ban, and does not try again.
VIA = {"Via": "1.1 google"}
# Interactions are answered however much else was asked.
FREE_OF_LIMITS = "create_interaction_response"
MAJOR = ("channel_id", "guild_id", "webhook_token")


def _limits() -> dict[str, tuple[int, float]]:
    """Requests in seconds, by operationId, as they were met; Discord promises none of them."""
    return {
        "create_message": (5, 5.0),
        "update_message": (5, 5.0),
        "create_thread": (50, 10.0),
        "execute_webhook": (5, 2.0),
        "update_webhook_message": (5, 2.0),
        "update_original_webhook_message": (5, 2.0),
    }


def limited(retry_s: float, *, scope: str = "user") -> ApiError:
    """A 429 as Discord words it; its scope is user, shared or global."""
    is_global = scope == "global"
    headers = {**VIA, "Retry-After": f"{retry_s:.3f}", "X-RateLimit-Scope": scope}
    if is_global:
        headers["X-RateLimit-Global"] = "true"
    extra = {"retry_after": round(retry_s, 3), "global": is_global}
    return ApiError(429, 0, "You are being rate limited.", headers=headers, extra=extra)


@dataclass
class RateLimits:
    """How much was asked of each bucket; real time, for the client waits in real time."""

    limits: dict[str, tuple[int, float]] = field(default_factory=_limits)
    global_max: int = GLOBAL_MAX
    _used: dict[str, tuple[float, int]] = field(default_factory=dict)
    _all: deque[float] = field(default_factory=deque)

    def take(self, operation: str, arguments: dict[str, str]) -> dict[str, str]:
        """Count a request; the headers of its answer. Errors: ApiError 429."""
        if operation == FREE_OF_LIMITS:
            return {}
        now = time.monotonic()
        if not operation.endswith(("webhook", "webhook_message")):
            self._take_global(now)
        most, window_s = self.limits.get(operation, DEFAULT)
        bucket = ":".join([operation, *(arguments.get(one, "") for one in MAJOR)])
        reset, used = self._used.get(bucket, (0.0, 0))
        if now >= reset:
            reset, used = now + window_s, 0
        self._used[bucket] = reset, used + 1
        left_s = reset - now
        headers = {
            **VIA,
            "X-RateLimit-Limit": str(most),
            "X-RateLimit-Remaining": str(max(most - used - 1, 0)),
            "X-RateLimit-Reset": f"{time.time() + left_s:.3f}",
            "X-RateLimit-Reset-After": f"{left_s:.3f}",
            "X-RateLimit-Bucket": f"{zlib.crc32(operation.encode()):08x}",
        }
        if used >= most:
            refusal = limited(left_s)
            refusal.headers = headers | refusal.headers
            raise refusal
        return headers

    def _take_global(self, now: float) -> None:
        while self._all and now - self._all[0] > GLOBAL_S:
            self._all.popleft()
        if len(self._all) >= self.global_max:
            raise limited(GLOBAL_S - (now - self._all[0]), scope="global")
        self._all.append(now)
