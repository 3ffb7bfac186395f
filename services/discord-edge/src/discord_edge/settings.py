"""What discord-edge is told at start; the only reader of its environment."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from shared.errors import Refused
from shared.settings import Listen, read

PREFIX = "WARPBOARD_DISCORD_EDGE"
PER_SUBMISSION, PER_PROBLEM = "submission", "problem"
ROLES = ("creator", "moderator", "admin")
HOW = "creator=<id>, moderator=<id> or admin=<id> with the ids of roles of the server"


@dataclass(frozen=True)
class Settings:
    """Where everything is, and the two secrets: the bot's own, and the edge's for ingest.

    `channels` are the ids of those where one may submit, apart by commas; none is every channel.
    `roles` says which role of the server stands for which of the platform's, as `admin=<id>`.
    `api_url` is another Discord than the public one, such as the simulated one.
    `public` makes channels and tells everybody of results, which it hears at `nats_url`; with
    `podiums`, of records and podiums too. `problems` is a folder of this machine, from which admins
    may make leaderboards while they develop. `threads` is for what a person has a thread of their
    own: each `submission`, or each `problem`. `public_url` is the address by which people find the
    platform: what is too large for Discord is linked there.
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
    public_url: str = ""
    problems: str = ""
    threads: str = PER_SUBMISSION

    @property
    def places(self) -> frozenset[int]:
        """The channels where one may submit."""
        return frozenset(int(one) for one in self.channels.split(",") if one.strip())

    @property
    def local(self) -> Path | None:
        """The folder with problems to develop on."""
        return Path(self.problems) if self.problems.strip() else None

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
    _check_threads(settings.threads)
    if settings.local is not None and not settings.local.is_dir():
        what = f"{PREFIX}_PROBLEMS is {settings.problems!r}: expected a folder of this machine"
        raise Refused("bad_settings", what, "problems")
    if settings.public and not settings.nats_url:
        what = f"{PREFIX}_PUBLIC tells what the platform's log says: set {PREFIX}_NATS_URL as well"
        raise Refused("bad_settings", what, "nats_url")
    return settings


def _check_threads(threads: str) -> None:
    """Errors: Refused."""
    if threads not in (PER_SUBMISSION, PER_PROBLEM):
        what = f"{PREFIX}_THREADS is {threads!r}: expected {PER_SUBMISSION} or {PER_PROBLEM}"
        raise Refused("bad_settings", what, "threads")
