"""What ingest is told at start; the only reader of its environment."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ingest.service.room import USUAL
from shared.errors import Refused
from shared.http_connections import HttpLimits, check_times
from shared.reader_authentication import check_key
from shared.settings import Listen, read

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PREFIX = "WARPBOARD_INGEST"
TOKEN_LENGTH_MIN = 16
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
RATE = re.compile(r"[1-9][0-9]{0,6}/(second|minute|hour|day)\Z")


@dataclass(frozen=True)
class Settings:
    """Where everything is; without an operator's token, roles alone make operators.

    `replicas` is how many NATS servers keep everything: 1, or 3 on a cluster. With `names_believed`
    a participant is who the request says, without a token; `autolink` is the participant whose
    every CLI id is. Both are for one's own machine, and refused on any address but loopback.
    """

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    ranker_url: str
    # By which ranker believes what ingest says of who reads.
    reader_key: str = field(repr=False)
    operator_token: str = field(default="", repr=False)
    # By which the Discord edge acts for its users: docs/login.md.
    edge_token: str = field(default="", repr=False)
    # By which roles one may be an operator there: moderator, admin; apart by commas.
    edge_roles: str = ""
    replicas: int = 1
    names_believed: bool = False
    autolink: str = ""
    rate_per_token: str = "600/minute"  # noqa: S105  (no secret: a rate)
    rate_per_address: str = "600/minute"
    # How many submissions are taken in at once, wait for that, and wait for a GPU type.
    at_once_max: int = USUAL.at_once_max
    waiting_max: int = USUAL.waiting_max
    queued_max: int = USUAL.queued_max
    # How many seconds a request's head may take, and its body beside a second per 16 KiB.
    head_s: float = HttpLimits.head_s
    body_s: float = HttpLimits.body_s
    # Where problems may come from, and what profiles: docs/popcorn.md.
    problem_roots: str = ""
    repositories: str = ""
    profiler_gpu: str = ""
    # How people log in: docs/login.md.
    public_url: str = ""
    web_signup: bool = False
    github_client_id: str = ""
    github_client_secret: str = field(default="", repr=False)
    github_url: str = "https://github.com"
    github_api_url: str = "https://api.github.com"
    discord_client_id: str = ""
    discord_client_secret: str = field(default="", repr=False)
    discord_url: str = "https://discord.com"

    @property
    def public_base(self) -> str:
        """Where people find this platform, without a slash at the end."""
        return self.public_url.rstrip("/") or f"http://{self.listen}"

    @property
    def http_limits(self) -> HttpLimits:
        """What clients may take of the server."""
        return HttpLimits(self.head_s, self.body_s)

    @property
    def edge_staff(self) -> frozenset[str]:
        """The roles by which one may be an operator on Discord."""
        return frozenset(one.strip() for one in self.edge_roles.split(",") if one.strip())

    @property
    def problem_folders(self) -> tuple[Path, ...]:
        """The folders that problems may come from."""
        return tuple(Path(one) for one in self.problem_roots.split(":") if one)


def load() -> Settings:
    """The settings, or Refused with all that is wrong with them."""
    settings = read(Settings, "WARPBOARD_INGEST", os.environ)
    _check_believed(settings)
    _check_rates(settings)
    _check_bounds(settings)
    check_times(PREFIX, settings.http_limits)
    check_key(settings.reader_key, f"{PREFIX}_READER_KEY")
    _check_tokens(settings)
    _check_edge(settings)
    _check_logins(settings)
    _check_folders(settings)
    return settings


def _check_tokens(settings: Settings) -> None:
    """Errors: Refused, for secrets that nobody can send, or that are easily guessed."""
    for name in ("operator_token", "edge_token"):
        token = getattr(settings, name)
        is_sendable = token.isascii() and token.isprintable() and " " not in token
        if token and not (is_sendable and len(token) >= TOKEN_LENGTH_MIN):
            what = (
                f"{PREFIX}_{name.upper()} is no token: expected at least {TOKEN_LENGTH_MIN} "
                "visible ASCII characters, or none at all"
            )
            raise Refused("bad_settings", what, name)
    if settings.edge_token and settings.edge_token == settings.operator_token:
        what = f"{PREFIX}_EDGE_TOKEN is the operators' own: make another, which may do less"
        raise Refused("bad_settings", what, "edge_token")


def _check_edge(settings: Settings) -> None:
    """Errors: Refused, for roles by which nobody is an operator, or that nobody can show."""
    if strange := sorted(settings.edge_staff - {"moderator", "admin"}):
        what = f"{PREFIX}_EDGE_ROLES names {strange[0]!r}: expected moderator, admin, or both"
        raise Refused("bad_settings", what, "edge_roles")
    if settings.edge_staff and not settings.edge_token:
        what = f"{PREFIX}_EDGE_ROLES is for who comes by {PREFIX}_EDGE_TOKEN: set that as well"
        raise Refused("bad_settings", what, "edge_roles")


def _check_believed(settings: Settings) -> None:
    """Errors: Refused, where strangers could say that they are anybody."""
    believed = ("names_believed", "autolink")
    given = [name for name in believed if getattr(settings, name)]
    if given and settings.listen.host not in LOOPBACK:
        what = (
            f"{PREFIX}_{given[0].upper()} is for one's own machine, but {PREFIX}_LISTEN is "
            f"{settings.listen.host}: listen on 127.0.0.1, or let everybody have a token"
        )
        raise Refused("bad_settings", what, given[0])
    if settings.autolink and not NAME.match(settings.autolink):
        what = f"{PREFIX}_AUTOLINK is {settings.autolink!r}: expected a participant's name"
        raise Refused("bad_settings", what, "autolink")


def _check_rates(settings: Settings) -> None:
    """Errors: Refused, for a limit that cannot be read."""
    for name in ("rate_per_token", "rate_per_address"):
        text = getattr(settings, name)
        if text and not RATE.match(text):
            what = f"{PREFIX}_{name.upper()} is {text!r}: expected 600/minute, or nothing"
            raise Refused("bad_settings", what, name)


def _check_bounds(settings: Settings) -> None:
    """Errors: Refused, for room in which nobody has a place."""
    for name, least in (("at_once_max", 1), ("waiting_max", 0), ("queued_max", 1)):
        if (given := getattr(settings, name)) < least:
            what = f"{PREFIX}_{name.upper()} is {given}: expected at least {least}"
            raise Refused("bad_settings", what, name)


def _check_logins(settings: Settings) -> None:
    """Errors: Refused, for ways to log in that could not work."""
    url = urlsplit(settings.public_url)
    # Away from this machine browsers keep the login's cookie over https alone.
    is_safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in LOOPBACK)
    is_base = is_safe and url.hostname and not (url.query or url.fragment)
    if settings.public_url and not is_base:
        what = (
            f"{PREFIX}_PUBLIC_URL is {settings.public_url!r}: expected the address by which people "
            "come here, such as https://kernels.example.org; http:// is for this machine alone"
        )
        raise Refused("bad_settings", what, "public_url")
    for name in ("github", "discord"):
        known = [getattr(settings, f"{name}_client_{part}") for part in ("id", "secret")]
        if any(known) and not all(known):
            prefix = f"WARPBOARD_INGEST_{name.upper()}_CLIENT"
            what = f"{prefix}_ID and {prefix}_SECRET belong together: set both or neither"
            raise Refused("bad_settings", what, f"{name}_client_id")


def _check_folders(settings: Settings) -> None:
    """Errors: Refused, for folders that are none."""
    for folder in settings.problem_folders:
        if not (folder.is_absolute() and folder.is_dir()):
            what = f"{PREFIX}_PROBLEM_ROOTS: {str(folder)!r} is no folder's absolute path"
            raise Refused("bad_settings", what, "problem_roots")
