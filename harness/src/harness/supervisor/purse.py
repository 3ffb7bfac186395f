"""What a stage may still spend: the submission's own time, not what the platform does between."""

import time


class Purse:
    """A budget in seconds; generators, references, checks and a busy machine cost nothing of it.

    `ends_at` is when the budget would be over by the wall: what is planned is planned by that.
    """

    def __init__(self, budget_s: float) -> None:
        self.left_s = budget_s
        self.ends_at = time.monotonic() + budget_s

    def until(self) -> float:
        """When a call that begins now must be over."""
        return time.monotonic() + max(0.0, self.left_s)

    def spend(self, time_us: float) -> None:
        """A call took so long."""
        self.left_s -= time_us / 1e6

    def pardon(self, took_s: float) -> None:
        """So much of the wall was the platform's."""
        self.ends_at += took_s
