"""Limits on attempts, such as logins from an address."""

import math
import time
from collections import OrderedDict

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from shared.errors import Refused
from shared.presentation.units import about_text

# Of the attempts of one kind, such as logins by address.
KEYS_MAX = 50_000


class AttemptLimiter:
    """Limits the attempts per key in a moving window; a rule is `10/minute` or `60/15 minutes`.

    `attempts` names them in the refusal: "new accounts from your network". Of too many keys, the
    one that was counted longest ago is forgotten.
    """

    def __init__(self, rule: str, attempts: str) -> None:
        self._rule = parse(rule)
        self._message = f"too many {attempts}: at most {rule.replace('/', ' per ')}"
        self._storage = MemoryStorage()
        self._window = MovingWindowRateLimiter(self._storage)
        self._keys: OrderedDict[str, None] = OrderedDict()

    def take(self, key: str) -> None:
        """Count an attempt. Raises `Refused` (`rate_limited`) with the time of the next one."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > KEYS_MAX:
            self.forgive(next(iter(self._keys)))
        if self._window.hit(self._rule, key):
            return
        raise self._rate_limited(key)

    def check(self, key: str) -> None:
        """Refuse as `take` would, without counting. Raises `Refused` (`rate_limited`)."""
        if not self._window.test(self._rule, key):
            raise self._rate_limited(key)

    def forgive(self, key: str) -> None:
        """Forget the attempts of a key, after a successful one."""
        self._keys.pop(key, None)
        self._window.clear(self._rule, key)

    def _rate_limited(self, key: str) -> Refused:
        wait_s = self._window.get_window_stats(self._rule, key).reset_time - time.time()
        wait_s = max(1.0, wait_s)
        message = f"{self._message}; try again in {about_text(math.ceil(wait_s))}"
        return Refused("rate_limited", message, retry_after_s=wait_s)
