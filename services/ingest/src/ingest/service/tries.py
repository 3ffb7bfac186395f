"""How often somebody may try, so that nothing short can be guessed."""

import math
import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from shared.errors import Refused


class Tries:
    """So many tries in a moving window for each key; a rule is written `10/minute`."""

    def __init__(self, rule: str, what: str) -> None:
        self._rule = parse(rule)
        self._what = what
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def take(self, key: str) -> None:
        """Note a try. Errors: Refused `rate_limited`, with when the next one is let through."""
        if self._window.hit(self._rule, key):
            return
        raise self._over(key)

    def check(self, key: str) -> None:
        """Note nothing, and refuse as `take` would. Errors: Refused `rate_limited`."""
        if not self._window.test(self._rule, key):
            raise self._over(key)

    def forgive(self, key: str) -> None:
        """Forget the tries of a key that turned out to be in the right."""
        self._window.clear(self._rule, key)

    def _over(self, key: str) -> Refused:
        wait_s = self._window.get_window_stats(self._rule, key).reset_time - time.time()
        what = f"too many {self._what}: at most {self._rule}; try again in {math.ceil(wait_s)} s"
        return Refused("rate_limited", what, retry_after_s=max(1.0, wait_s))
