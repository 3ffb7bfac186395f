"""Settings of ranker, the only reader of its environment."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from ranker.domain.conclusion import Demand, parse_demand
from shared.errors import Refused
from shared.licences import LICENCES
from shared.reader import check_key
from shared.settings import (
    LOOPBACK,
    Address,
    ApiListen,
    BusSettings,
    Doc,
    LocalWebhooks,
    OpsListen,
    ReaderKey,
    Replicas,
    Tracing,
    read_settings,
)

PREFIX = "WARPBOARD_RANKER"
# An Idempotency-Key stands for its request for a day.
TRUNCATE_DAYS_MIN = 2.0
PRICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
RANKED = Doc(
    "which times are ranked; C2, G0 and levels below `medium` are allowed only if `LISTEN` is "
    "loopback",
    "too strict: runs pass and are not ranked, with the reason; too lax: times that a submission "
    "could forge, or that the machine distorts, are ranked",
)


@dataclass(frozen=True)
class Settings(BusSettings):
    """Addresses, which times are ranked, and what signs the log."""

    postgres_dsn: Address
    listen: ApiListen
    ops_listen: OpsListen
    reader_key: ReaderKey = field(repr=False)
    level_min: Annotated[str, RANKED] = "strong"
    tiers: Annotated[str, RANKED] = "G1 G2 C1"
    seal_key: Annotated[
        Path | None,
        Doc(
            "a file, generated at the first start; the log is sealed after 10,000 events or a day",
            "without one nothing is sealed: nobody can show later that the log was not replaced. "
            "A new key needs a [change of key](docs/audit.md)",
        ),
    ] = None
    announce_url: Annotated[
        str | None,
        Doc(
            "receives records, podiums, milestones and seals as JSON",
            "what cannot be delivered waits, and the log says why",
        ),
    ] = None
    replicas: Replicas = 1
    webhooks_local: LocalWebhooks = False
    tracing: Tracing = False
    duels: Annotated[
        bool,
        Doc(
            "time tied neighbours among the first three entries against each other",
            "false: they share a rank for ever",
        ),
    ] = True
    confirmations: Annotated[
        bool,
        Doc(
            "repeat ranked runs of the first three entries on another agent",
            "false: an agent whose times are wrong is found later",
        ),
    ] = True
    retimes: Annotated[
        bool,
        Doc(
            "[time noisy entries again](docs/timing.md#retimes) later, up to three times",
            "false: they keep the slow end of their interval",
        ),
    ] = True

    segments: Annotated[
        bool,
        Doc(
            "export the log in [segments](docs/operating/segments.md) of 20,000 events by itself",
            "false: only `warpboard server segments seal` does, and nothing can be dropped",
        ),
    ] = False
    truncate_days: Annotated[
        float,
        Doc(
            "drop histories from the stream that were over so many days ago and are in segments; "
            "0: only `warpboard server segments truncate` does; at least 2",
            "too few: outboxes that were away for longer hold the truncation back",
        ),
    ] = 0.0

    device_prices: Annotated[
        str,
        Doc(
            "what an hour of a device costs, such as `H100=2.5 CPU=0.05`, to show operators what "
            "[evaluations](docs/evaluations.md) cost",
            "without a price no cost is shown",
        ),
    ] = ""

    releases: Annotated[
        Path | None,
        Doc(
            "the folder of the [kernel archive](docs/kernel-archive.md), whose files "
            "`GET /v1/archive/releases` offers. Its key is beside it, readable by its owner alone",
            "none: the route lists nothing. With another key, the next release has other "
            "pseudonyms",
        ),
    ] = None
    releases_every_h: Annotated[
        float,
        Doc(
            "builds a release at the start and then every so many hours; 0: only "
            "`warpboard archive build` does",
            "too often: each reads the whole log",
        ),
    ] = 0.0
    releases_licence: Annotated[
        str,
        Doc(
            f"of sources in releases whose authors chose `default`: {', '.join(LICENCES)}; tell "
            "participants before you set one",
            "empty: only sources whose authors chose another licence are in releases",
        ),
    ] = ""

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


def parse_prices(text: str) -> dict[str, float]:
    """Return the price of an hour by GPU type. Raises Refused.

    >>> parse_prices("H100=2.5 CPU=0.05")
    {'H100': 2.5, 'CPU': 0.05}
    """
    prices: dict[str, float] = {}
    for pair in text.split():
        gpu, _, price = pair.partition("=")
        if not gpu or not PRICE.fullmatch(price):
            reason = f"WARPBOARD_RANKER_DEVICE_PRICES has {pair!r}: expected such as H100=2.5"
            raise Refused("bad_settings", reason, "device_prices")
        prices[gpu] = float(price)
    return prices


def check_releases(settings: Settings) -> None:
    """Check what is said of releases. Raises Refused."""
    licence, every_h = settings.releases_licence, settings.releases_every_h
    if licence and licence not in LICENCES:
        reason = f"WARPBOARD_RANKER_RELEASES_LICENCE is {licence!r}: expected {', '.join(LICENCES)}"
        raise Refused("bad_settings", reason, "releases_licence")
    if every_h < 0 or (every_h and settings.releases is None):
        reason = (
            f"WARPBOARD_RANKER_RELEASES_EVERY_H is {every_h:g}: expected 0, or hours together with "
            "a folder, WARPBOARD_RANKER_RELEASES"
        )
        raise Refused("bad_settings", reason, "releases_every_h")


def check_segments(settings: Settings) -> None:
    """Check what is said of segments. Raises Refused."""
    if settings.segments and settings.seal_key is None:
        reason = "WARPBOARD_RANKER_SEGMENTS needs a key that signs them: WARPBOARD_RANKER_SEAL_KEY"
        raise Refused("bad_settings", reason, "segments")
    days = settings.truncate_days
    if days and (days < TRUNCATE_DAYS_MIN or not settings.segments):
        reason = (
            f"WARPBOARD_RANKER_TRUNCATE_DAYS is {days:g}: expected 0, or at least "
            f"{TRUNCATE_DAYS_MIN:g} together with WARPBOARD_RANKER_SEGMENTS=true"
        )
        raise Refused("bad_settings", reason, "truncate_days")


def check_local(settings: Settings) -> None:
    """Refuse webhooks to loopback on a public server. Raises Refused."""
    host = settings.listen.host
    if settings.webhooks_local and host not in LOOPBACK:
        reason = (
            "WARPBOARD_RANKER_WEBHOOKS_LOCAL is for a single-user machine, "
            f"but WARPBOARD_RANKER_LISTEN is {host}: listen on 127.0.0.1, or disable local webhooks"
        )
        raise Refused("bad_settings", reason, "webhooks_local")


CHECKS: tuple[Callable[[Settings], object], ...] = (
    Settings.demand,
    lambda settings: parse_prices(settings.device_prices),
    lambda settings: check_key(settings.reader_key, f"{PREFIX}_READER_KEY"),
    lambda settings: check_url(settings.announce_url),
    check_local,
    check_releases,
    check_segments,
)


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them."""
    return read_settings(Settings, PREFIX, os.environ, CHECKS)
