"""How often something may be done: a burst at once, then at a steady rate."""

import time
from dataclasses import dataclass, field


@dataclass
class Allowance:
    """May be taken `burst` times at once, and refills by `per_s` each second.

    >>> allowance = Allowance(burst=2, per_s=0.0)
    >>> [allowance.take() for _ in range(3)]
    [True, True, False]
    """

    burst: float
    per_s: float
    left: float = field(init=False)
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin with the whole burst."""
        self.left = self.burst

    def take(self, cost: float = 1.0) -> bool:
        """Take so much of it if there is enough; return whether there was."""
        at = time.monotonic()
        self.left = min(self.burst, self.left + (at - self.at) * self.per_s)
        self.at = at
        if self.left < cost:
            return False
        self.left -= cost
        return True
