"""What ranker is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass

from shared.settings import Listen, read


@dataclass(frozen=True)
class Settings:
    """Where everything is."""

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    return read(Settings, "WARPBOARD_RANKER", os.environ)
