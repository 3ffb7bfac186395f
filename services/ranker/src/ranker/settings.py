"""What ranker is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ranker.domain.eligibility import Demand, demand
from shared.errors import Refused
from shared.http_connections import HttpLimits, check_times
from shared.reader_authentication import check_key
from shared.settings import Listen, read

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """Where everything is, which times are ranked, and how often the log is sealed.

    `reader_key` is ingest's, too: who shows it is believed to say who reads.

    `announce_url` is told of records, podiums and seals; `replicas` is 3 on a cluster.
    `webhooks_local` lets webhooks lead to this very machine, where nobody else is.
    `duels` times tied neighbours among the first three of a leaderboard against each other.
    `confirmations` repeats ranked runs of the first three on another agent.
    The key of the seals is drawn into its file at the first start; without a file none are made.
    """

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    reader_key: str = field(repr=False)
    level_min: str = "strong"
    tiers: str = "G1 G2 C1"
    seal_key: Path | None = None
    seal_events: int = 10_000
    seal_s: float = 86_400.0
    announce_url: str | None = None
    replicas: int = 1
    webhooks_local: bool = False
    duels: bool = True
    confirmations: bool = True
    # How many seconds a request's head may take, and its body beside a second per 16 KiB.
    head_s: float = HttpLimits.head_s
    body_s: float = HttpLimits.body_s

    @property
    def http_limits(self) -> HttpLimits:
        """What clients may take of the server."""
        return HttpLimits(self.head_s, self.body_s)

    def wanted(self) -> Demand:
        """What is ranked. Errors: Refused."""
        is_loopback = self.listen.host in LOOPBACK
        return demand(self.level_min, self.tiers, is_loopback=is_loopback)


def checked_url(url: str | None) -> None:
    """That the events can be told there, if anywhere. Errors: Refused."""
    parts = urlsplit(url or "http://nowhere")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        reason = (
            f"WARPBOARD_RANKER_ANNOUNCE_URL is {url!r}: expected a URL such as https://x.org/in"
        )
        raise Refused("bad_settings", reason, "announce_url")


def checked_local(settings: Settings) -> None:
    """That strangers cannot have requests sent into this machine. Errors: Refused."""
    host = settings.listen.host
    if settings.webhooks_local and host not in LOOPBACK:
        reason = (
            "WARPBOARD_RANKER_WEBHOOKS_LOCAL is for one's own machine, but WARPBOARD_RANKER_LISTEN "
            f"is {host}: listen on 127.0.0.1, or let webhooks be on the public internet"
        )
        raise Refused("bad_settings", reason, "webhooks_local")


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, "WARPBOARD_RANKER", os.environ)
    settings.wanted()
    check_key(settings.reader_key, "WARPBOARD_RANKER_READER_KEY")
    check_times("WARPBOARD_RANKER", settings.http_limits)
    checked_url(settings.announce_url)
    checked_local(settings)
    return settings
