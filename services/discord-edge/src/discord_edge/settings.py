"""The settings of discord-edge; the only module that reads its environment."""

import os
from dataclasses import dataclass, field

from shared.errors import Refused
from shared.settings import Listen, read_settings

PREFIX = "WARPBOARD_DISCORD_EDGE"
PER_SUBMISSION, PER_PROBLEM = "submission", "problem"
ROLES = ("creator", "moderator", "admin")
ROLES_FORMAT = "creator=<id>, moderator=<id> or admin=<id> with the ids of server roles"


@dataclass(frozen=True)
class Settings:
    """Addresses, and two secrets: the bot's token, and the edge's token for ingest.

    `channels` are the ids of the channels where users may submit, separated by commas; empty is
    every channel. `roles` maps server roles to platform roles, as `admin=<id>`. `api_url` selects
    another Discord than the public one, such as the simulator. `public` creates channels and
    announces results there, read from the log at `nats_url`; with `podiums`, also records and
    podiums. It greets new members in the channel `lobby`, by default in one of those that it
    creates. `threads` gives users a thread per `submission` or per `problem`. `public_url` is the
    platform's public address, for links to operators' pages and to files that are too large for
    Discord.
    """

    ingest_url: str
    postgres_dsn: str
    ops_listen: Listen
    guild: int
    token: str = field(repr=False)
    edge_token: str = field(repr=False)
    channels: str = ""
    lobby: str = ""
    roles: str = ""
    api_url: str = ""
    nats_url: str = ""
    public: bool = False
    podiums: bool = False
    public_url: str = ""
    threads: str = PER_SUBMISSION

    @property
    def channel_ids(self) -> frozenset[int]:
        """The channels where users may submit."""
        return frozenset(int(part) for part in self.channels.split(",") if part.strip())

    @property
    def role_names(self) -> dict[int, str]:
        """The platform roles by the ids of the server roles that grant them."""
        pairs = [part.partition("=") for part in self.roles.split(",") if part.strip()]
        return {int(identity): name.strip() for name, _, identity in pairs}


def load_settings() -> Settings:
    """Read the settings. Raises `Refused` `bad_settings`."""
    settings = read_settings(Settings, PREFIX, os.environ)
    for name in ("token", "edge_token"):
        if not getattr(settings, name).strip():
            reason = f"{PREFIX}_{name.upper()} is empty: see docs/login.md and the README"
            raise Refused("bad_settings", reason, name)
    _check_channels(settings)
    try:
        unknown_roles = sorted(set(settings.role_names.values()) - set(ROLES))
    except ValueError:
        unknown_roles = [settings.roles]
    if unknown_roles:
        reason = f"{PREFIX}_ROLES names {unknown_roles[0]!r}: expected {ROLES_FORMAT}"
        raise Refused("bad_settings", f"{reason}, separated by commas", "roles")
    if settings.threads not in (PER_SUBMISSION, PER_PROBLEM):
        reason = (
            f"{PREFIX}_THREADS is {settings.threads!r}: expected {PER_SUBMISSION} or {PER_PROBLEM}"
        )
        raise Refused("bad_settings", reason, "threads")
    if settings.public and not settings.nats_url:
        reason = f"{PREFIX}_PUBLIC announces events from NATS: set {PREFIX}_NATS_URL as well"
        raise Refused("bad_settings", reason, "nats_url")
    return settings


def _check_channels(settings: Settings) -> None:
    try:
        assert settings.channel_ids is not None
    except ValueError as error:
        reason = f"{PREFIX}_CHANNELS is {settings.channels!r}: expected ids separated by commas"
        raise Refused("bad_settings", reason, "channels") from error
    if settings.lobby and not settings.lobby.isdecimal():
        reason = f"{PREFIX}_LOBBY is {settings.lobby!r}: expected the id of a channel"
        raise Refused("bad_settings", reason, "lobby")
