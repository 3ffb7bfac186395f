"""The settings of ingest; the only reader of its environment."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ingest.accounts.rules import NAME
from ingest.submissions.admission import DEFAULT_LIMITS
from shared.errors import Refused
from shared.http_connections import HttpLimits, check_times
from shared.reader import check_key
from shared.settings import Listen, read_settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PREFIX = "WARPBOARD_INGEST"
TOKEN_LENGTH_MIN = 16
RATE = re.compile(r"[1-9][0-9]{0,6}/(second|minute|hour|day)\Z")


@dataclass(frozen=True)
class Settings:
    """All settings; without an operator token, only roles make operators.

    `replicas` is the number of NATS servers that store everything: 1, or 3 on a cluster. With
    `names_believed` a participant is who the request says, without a token; `autolink` is the
    participant who gets every CLI id. Both are for one's own machine and refused on any address but
    loopback.
    """

    nats_url: str
    postgres_dsn: str
    listen: Listen
    ops_listen: Listen
    ranker_url: str
    # The key that lets ranker trust the reader in ingest's requests.
    reader_key: str = field(repr=False)
    operator_token: str = field(default="", repr=False)
    # The token by which the Discord edge acts for its users: docs/login.md.
    edge_token: str = field(default="", repr=False)
    # The Discord roles that make operators: moderator, admin; separated by commas.
    edge_roles: str = ""
    replicas: int = 1
    names_believed: bool = False
    autolink: str = ""
    rate_per_token: str = "600/minute"  # noqa: S105  (no secret: a rate)
    rate_per_address: str = "600/minute"
    # How many submissions are processed at once, wait for that, and wait for a GPU type.
    at_once_max: int = DEFAULT_LIMITS.at_once_max
    waiting_max: int = DEFAULT_LIMITS.waiting_max
    queued_max: int = DEFAULT_LIMITS.queued_max
    # The seconds a request's head may take, and its body (plus a second per 16 KiB).
    head_s: float = HttpLimits.head_s
    body_s: float = HttpLimits.body_s
    # Where problems may come from, and the GPU type for profiles: docs/popcorn.md.
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
        """Return the public URL of this platform, without a trailing slash."""
        return self.public_url.rstrip("/") or f"http://{self.listen}"

    @property
    def http_limits(self) -> HttpLimits:
        """Return the limits for slow clients."""
        return HttpLimits(self.head_s, self.body_s)

    @property
    def edge_staff(self) -> frozenset[str]:
        """Return the Discord roles that make operators."""
        return frozenset(role.strip() for role in self.edge_roles.split(",") if role.strip())

    @property
    def problem_folders(self) -> tuple[Path, ...]:
        """Return the folders that problems may come from."""
        return tuple(Path(folder) for folder in self.problem_roots.split(":") if folder)


def load() -> Settings:
    """Return the settings. Raises `Refused` with everything that is wrong with them."""
    settings = read_settings(Settings, "WARPBOARD_INGEST", os.environ)
    _check_local_only(settings)
    _check_rates(settings)
    _check_admission_limits(settings)
    check_times(PREFIX, settings.http_limits)
    check_key(settings.reader_key, f"{PREFIX}_READER_KEY")
    _check_tokens(settings)
    _check_edge(settings)
    _check_logins(settings)
    _check_folders(settings)
    return settings


def _check_tokens(settings: Settings) -> None:
    """Refuse secrets that cannot be sent or are easy to guess."""
    for name in ("operator_token", "edge_token"):
        token = getattr(settings, name)
        is_sendable = token.isascii() and token.isprintable() and " " not in token
        if token and not (is_sendable and len(token) >= TOKEN_LENGTH_MIN):
            message = (
                f"{PREFIX}_{name.upper()} is not a token: expected at least {TOKEN_LENGTH_MIN} "
                "visible ASCII characters, or no value"
            )
            raise Refused("bad_settings", message, name)
    if settings.edge_token and settings.edge_token == settings.operator_token:
        message = f"{PREFIX}_EDGE_TOKEN equals the operator token: choose another one"
        raise Refused("bad_settings", message, "edge_token")


def _check_edge(settings: Settings) -> None:
    """Refuse roles that are not operator roles or that nobody can show."""
    if unknown_roles := sorted(settings.edge_staff - {"moderator", "admin"}):
        message = (
            f"{PREFIX}_EDGE_ROLES names {unknown_roles[0]!r}: expected moderator, admin, or both"
        )
        raise Refused("bad_settings", message, "edge_roles")
    if settings.edge_staff and not settings.edge_token:
        message = f"{PREFIX}_EDGE_ROLES needs {PREFIX}_EDGE_TOKEN: set that as well"
        raise Refused("bad_settings", message, "edge_roles")


def _check_local_only(settings: Settings) -> None:
    """Refuse settings that let strangers act as anybody."""
    settings_names = ("names_believed", "autolink")
    enabled = [name for name in settings_names if getattr(settings, name)]
    if enabled and settings.listen.host not in LOOPBACK:
        message = (
            f"{PREFIX}_{enabled[0].upper()} is for one's own machine, but {PREFIX}_LISTEN is "
            f"{settings.listen.host}: listen on 127.0.0.1, or use tokens"
        )
        raise Refused("bad_settings", message, enabled[0])
    if settings.autolink and not NAME.match(settings.autolink):
        message = f"{PREFIX}_AUTOLINK is {settings.autolink!r}: expected a participant's name"
        raise Refused("bad_settings", message, "autolink")


def _check_rates(settings: Settings) -> None:
    """Refuse a rate that cannot be parsed."""
    for name in ("rate_per_token", "rate_per_address"):
        text = getattr(settings, name)
        if text and not RATE.match(text):
            message = f"{PREFIX}_{name.upper()} is {text!r}: expected 600/minute, or nothing"
            raise Refused("bad_settings", message, name)


def _check_admission_limits(settings: Settings) -> None:
    """Refuse limits that admit nobody."""
    for name, minimum in (("at_once_max", 1), ("waiting_max", 0), ("queued_max", 1)):
        if (value := getattr(settings, name)) < minimum:
            message = f"{PREFIX}_{name.upper()} is {value}: expected at least {minimum}"
            raise Refused("bad_settings", message, name)


def _check_logins(settings: Settings) -> None:
    """Refuse login settings that could not work."""
    url = urlsplit(settings.public_url)
    # Except on this machine, browsers keep the login cookie only over https.
    is_safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in LOOPBACK)
    is_base = is_safe and url.hostname and not (url.query or url.fragment)
    if settings.public_url and not is_base:
        message = (
            f"{PREFIX}_PUBLIC_URL is {settings.public_url!r}: expected the public URL, such as "
            "https://kernels.example.org; http:// is for this machine only"
        )
        raise Refused("bad_settings", message, "public_url")
    for name in ("github", "discord"):
        values = [getattr(settings, f"{name}_client_{part}") for part in ("id", "secret")]
        if any(values) and not all(values):
            prefix = f"WARPBOARD_INGEST_{name.upper()}_CLIENT"
            message = f"{prefix}_ID and {prefix}_SECRET belong together: set both or neither"
            raise Refused("bad_settings", message, f"{name}_client_id")


def _check_folders(settings: Settings) -> None:
    """Refuse folders that do not exist."""
    for folder in settings.problem_folders:
        if not (folder.is_absolute() and folder.is_dir()):
            message = (
                f"{PREFIX}_PROBLEM_ROOTS: {str(folder)!r} is not the absolute path of a folder"
            )
            raise Refused("bad_settings", message, "problem_roots")
