"""Settings of ranker, the only reader of its environment."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ranker.domain.conclusion import Demand, parse_demand
from shared.errors import Refused
from shared.reader import check_key
from shared.settings import LOOPBACK, Listen, read_settings


@dataclass(frozen=True)
class Settings:
    """Addresses, which times are ranked, and what signs the log.

    `reader_key` is shared with ingest: requests that carry it are trusted to name the reader.
    `announce_url` receives records, podium changes and seals; `replicas` is 3 on a cluster.
    `webhooks_local` allows webhooks to loopback addresses, for a single-user machine. `duels` times
    tied neighbours among the first three of a leaderboard against each other. `confirmations`
    repeats ranked runs of the first three on another agent. `retimes` times noisy entries again
    later. `seal_key` is a file; the key is generated at the first start. Without it nothing is
    sealed.
    """

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    reader_key: str = field(repr=False)
    level_min: str = "strong"
    tiers: str = "G1 G2 C1"
    seal_key: Path | None = None
    announce_url: str | None = None
    replicas: int = 1
    webhooks_local: bool = False
    duels: bool = True
    confirmations: bool = True
    retimes: bool = True

    def demand(self) -> Demand:
        """The policy for which times are ranked. Raises Refused."""
        is_loopback = self.listen.host in LOOPBACK
        return parse_demand(self.level_min, self.tiers, is_loopback=is_loopback)


def check_url(url: str | None) -> None:
    """Check the announce URL. Raises Refused."""
    parts = urlsplit(url or "http://nowhere")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        reason = (
            f"WARPBOARD_RANKER_ANNOUNCE_URL is {url!r}: expected a URL such as https://x.org/in"
        )
        raise Refused("bad_settings", reason, "announce_url")


def check_local(settings: Settings) -> None:
    """Refuse webhooks to loopback on a public server. Raises Refused."""
    host = settings.listen.host
    if settings.webhooks_local and host not in LOOPBACK:
        reason = (
            "WARPBOARD_RANKER_WEBHOOKS_LOCAL is for a single-user machine, "
            f"but WARPBOARD_RANKER_LISTEN is {host}: listen on 127.0.0.1, or disable local webhooks"
        )
        raise Refused("bad_settings", reason, "webhooks_local")


def load() -> Settings:
    """Read and check the settings. Raises Refused with everything that is wrong with them."""
    settings = read_settings(Settings, "WARPBOARD_RANKER", os.environ)
    settings.demand()
    check_key(settings.reader_key, "WARPBOARD_RANKER_READER_KEY")
    check_url(settings.announce_url)
    check_local(settings)
    return settings
