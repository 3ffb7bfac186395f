"""What discord-edge is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass, field

from shared.errors import Refused
from shared.settings import Listen, read

PREFIX = "WARPBOARD_DISCORD_EDGE"
ROLES = ("creator", "moderator", "admin")
HOW = "creator=<id>, moderator=<id> or admin=<id> with the ids of roles of the server"


@dataclass(frozen=True)
class Settings:
    """Where everything is, and the two secrets: the bot's own, and the edge's for ingest.

    `channels` are the ids of those where one may submit, apart by commas; none is every channel.
    `roles` says which role of the server stands for which of the platform's, as `admin=<id>`.
    `api_url` is another Discord than the public one, such as the simulated one.
    `public` makes channels and tells everybody of results, which it hears at `nats_url`; with
    `podiums`, of records and podiums too.
    """

    ingest_url: str
    postgres_dsn: str
    ops_listen: Listen
    guild: int
    token: str = field(repr=False)
    edge_token: str = field(repr=False)
    channels: str = ""
    roles: str = ""
    api_url: str = ""
    nats_url: str = ""
    public: bool = False
    podiums: bool = False

    @property
    def places(self) -> frozenset[int]:
        """The channels where one may submit."""
        return frozenset(int(one) for one in self.channels.split(",") if one.strip())

    @property
    def staff(self) -> dict[int, str]:
        """The roles of the server, by their ids, with what each stands for."""
        pairs = [one.partition("=") for one in self.roles.split(",") if one.strip()]
        return {int(identity): name.strip() for name, _, identity in pairs}


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, PREFIX, os.environ)
    for name in ("token", "edge_token"):
        if not getattr(settings, name).strip():
            what = f"{PREFIX}_{name.upper()} is empty: docs/login.md and the README say whence"
            raise Refused("bad_settings", what, name)
    try:
        assert settings.places is not None
    except ValueError as error:
        what = f"{PREFIX}_CHANNELS is {settings.channels!r}: expected ids apart by commas"
        raise Refused("bad_settings", what, "channels") from error
    try:
        strange = sorted(set(settings.staff.values()) - set(ROLES))
    except ValueError:
        strange = [settings.roles]
    if strange:
        what = f"{PREFIX}_ROLES names {strange[0]!r}: expected {HOW}, apart by commas"
        raise Refused("bad_settings", what, "roles")
    if settings.public and not settings.nats_url:
        what = f"{PREFIX}_PUBLIC tells what the platform's log says: set {PREFIX}_NATS_URL as well"
        raise Refused("bad_settings", what, "nats_url")
    return settings
