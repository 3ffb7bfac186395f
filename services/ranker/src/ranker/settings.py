"""What ranker is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass

from ranker.domain.eligibility import Demand, demand
from shared.settings import Listen, read

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """Where everything is, and which times are ranked: their isolation and their timing tiers."""

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    level_min: str = "strong"
    tiers: str = "G1 G2 C1"

    def wanted(self) -> Demand:
        """What is ranked. Errors: Refused."""
        is_loopback = self.listen.host in LOOPBACK
        return demand(self.level_min, self.tiers, is_loopback=is_loopback)


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, "WARPBOARD_RANKER", os.environ)
    settings.wanted()
    return settings
