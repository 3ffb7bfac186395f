"""The scheduler's settings; the only reader of its environment."""

import math
import os
from dataclasses import dataclass
from typing import TypeVar

from scheduler.domain.queue import Policy
from shared.errors import Refused
from shared.settings import Listen, read_settings

PREFIX = "WARPBOARD_SCHEDULER"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Settings:
    """Addresses, and the limits of the rules.

    A missing agent is unknown rather than gone for `silent_s_max` after the start. No job of
    several GPUs is passed over `gang_passed_max` times in a row.
    """

    nats_url: str
    ops_listen: Listen
    silent_s_max: float = 15.0
    tick_s: float = 0.5
    gang_passed_max: int = 32
    baseline_pause_s: float = 30.0
    replicas: int = 1

    def policy(self) -> Policy:
        """Return the configured policy. Raises Refused."""
        return Policy(
            gang_passed_max=_check_minimum("GANG_PASSED_MAX", self.gang_passed_max, 0),
            baseline_pause_s=_check_minimum("BASELINE_PAUSE_S", self.baseline_pause_s, 0.0),
        )


def _check_minimum(field: str, value: Number, least: Number) -> Number:
    if not least <= value < math.inf:
        raise Refused("bad_settings", f"{PREFIX}_{field} is {value}: expected {least:g} or more")
    return value


def load() -> Settings:
    """Load the settings. Raises Refused and names everything that is wrong with them."""
    settings = read_settings(Settings, PREFIX, os.environ)
    settings.policy()
    return settings
