"""What scheduler is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass

from shared.settings import Listen, read


@dataclass(frozen=True)
class Settings:
    """Addresses, and how long after the start a missing agent is unknown, not gone."""

    nats_url: str
    ops_listen: Listen
    silent_s_max: float = 15.0
    tick_s: float = 0.5


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    return read(Settings, "WARPBOARD_SCHEDULER", os.environ)
