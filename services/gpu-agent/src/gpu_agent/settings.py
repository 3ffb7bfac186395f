"""What gpu-agent is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass
from pathlib import Path

from shared.settings import Listen, read


@dataclass(frozen=True)
class Settings:
    """Addresses, the agent's name, and where it keeps problems and runs."""

    nats_url: str
    id: str
    data: Path
    ops_listen: Listen
    heartbeat_s: float = 5.0
    drain_s: float = 8.0


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    return read(Settings, "WARPBOARD_GPU_AGENT", os.environ)
