"""The settings of ingest; the only reader of its environment."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from ingest.identity.names import NAME
from ingest.submissions.admission import DEFAULT_LIMITS
from shared.errors import Refused
from shared.http_connections import HttpLimits, check_times
from shared.reader import check_key
from shared.settings import LOOPBACK, Listen, read_settings

PREFIX = "WARPBOARD_INGEST"
TOKEN_LENGTH_MIN = 16
TOKEN = re.compile(rf"[!-~]{{{TOKEN_LENGTH_MIN},}}")
RATE = re.compile(r"[1-9][0-9]{0,6}/([1-9][0-9]{0,2} ?)?(second|minute|hour|day)s?\Z")
# The log is asked about all of a participant's open submissions at once.
OPEN_MAX = 1000
REQUEST_RATES = ("rate_per_token", "rate_per_address")
LOGIN_RATES = (
    *("signups_per_address", "passwords_per_address", "passwords_per_name"),
    *("logins_per_address", "cli_ids_per_address"),
)


@dataclass(frozen=True)
class Settings:
    """All settings; without an operator token, only roles make operators.

    `replicas` is the number of NATS servers that store everything: 1, or 3 on a cluster. With
    `names_believed` a participant is who the request says, without a token; `autolink` is the
    participant who gets every CLI id. `webhooks_local` accepts webhooks to this machine, as the
    setting of ranker does. All three are for one's own machine and refused on any address but
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
    webhooks_local: bool = False
    rate_per_token: str = "600/minute"  # noqa: S105  (no secret: a rate)
    rate_per_address: str = "600/minute"
    # How many submissions may wait for a GPU type.
    queued_max: int = DEFAULT_LIMITS.queued_max
    # How many submissions of one participant may be open, that is, not over.
    open_max: int = DEFAULT_LIMITS.open_max
    # The seconds a request's head may take, and its body (plus a second per 16 KiB).
    head_s: float = HttpLimits.head_s
    body_s: float = HttpLimits.body_s
    # Where problems may come from, and the GPU type for profiles: docs/popcorn.md.
    problem_roots: str = ""
    repositories: str = ""
    # Why the public client, which sends no check report, may publish problems; empty if it may not.
    popcorn_unchecked: str = ""
    profiler_gpu: str = ""
    # How people log in: docs/login.md.
    public_url: str = ""
    web_signup: bool = False
    # Limits on logins and new accounts. A class may share one address.
    signups_per_address: str = "200/hour"
    passwords_per_address: str = "60/15 minutes"
    # Beyond this rate a name is only slowed.
    passwords_per_name: str = "20/hour"
    # Device logins, and redirects to GitHub or Discord.
    logins_per_address: str = "60/minute"
    cli_ids_per_address: str = "10/minute"
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
    """Return the settings. Raises `Refused` if one is wrong."""
    settings = read_settings(Settings, PREFIX, os.environ)
    check_times(PREFIX, settings.http_limits)
    check_key(settings.reader_key, f"{PREFIX}_READER_KEY")
    finders = (_find_local_problems, _find_access_problems, _find_limit_problems, _find_problems)
    for name, message in chain.from_iterable(find(settings) for find in finders):
        raise Refused("bad_settings", f"{PREFIX}_{name.upper()} {message}", name)
    return settings


def _find_local_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each setting that is only for one's own machine but is set on a server."""
    for name in ("names_believed", "autolink", "webhooks_local"):
        if getattr(settings, name) and settings.listen.host not in LOOPBACK:
            listen = f"{PREFIX}_LISTEN is {settings.listen.host}"
            advice = "listen on 127.0.0.1, or leave it unset"
            yield name, f"is for one's own machine, but {listen}: {advice}"
    if settings.autolink and not NAME.match(settings.autolink):
        yield "autolink", f"is {settings.autolink!r}: expected a participant's name"


def _find_access_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each token, and each role of the edge, that cannot work."""
    for name in ("operator_token", "edge_token"):
        token = getattr(settings, name)
        # Others cannot be sent, or are easy to guess.
        if token and not TOKEN.fullmatch(token):
            expected = f"at least {TOKEN_LENGTH_MIN} visible ASCII characters, or no value"
            yield name, f"is not a token: expected {expected}"
    if settings.edge_token and settings.edge_token == settings.operator_token:
        yield "edge_token", "equals the operator token: choose another one"
    if unknown_roles := sorted(settings.edge_staff - {"moderator", "admin"}):
        yield "edge_roles", f"names {unknown_roles[0]!r}: expected moderator, admin, or both"
    if settings.edge_staff and not settings.edge_token:
        yield "edge_roles", f"needs {PREFIX}_EDGE_TOKEN: set that as well"


def _find_limit_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each limit that cannot be parsed or admits nobody."""
    for name in (*REQUEST_RATES, *LOGIN_RATES):
        rate, may_be_empty = getattr(settings, name), name in REQUEST_RATES
        if not (RATE.match(rate) or (may_be_empty and not rate)):
            example = "600/minute, or nothing" if may_be_empty else "200/hour or 60/15 minutes"
            yield name, f"is {rate!r}: expected {example}"
    if settings.queued_max < 1:
        yield "queued_max", f"is {settings.queued_max}: expected at least 1"
    if not 1 <= settings.open_max <= OPEN_MAX:
        yield "open_max", f"is {settings.open_max}: expected 1 to {OPEN_MAX}"


def _find_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each URL, provider and folder that cannot work."""
    url = urlsplit(settings.public_url)
    # Except on this machine, browsers keep the login cookie only over https.
    is_safe = url.scheme == "https" or (url.scheme == "http" and url.hostname in LOOPBACK)
    is_base = is_safe and url.hostname and not (url.query or url.fragment)
    if settings.public_url and not is_base:
        example = "https://kernels.example.org; http:// is for this machine only"
        message = f"is {settings.public_url!r}: expected the public URL, such as {example}"
        yield "public_url", message
    for provider in ("github", "discord"):
        name, other = f"{provider}_client_id", f"{provider}_client_secret"
        if bool(getattr(settings, name)) != bool(getattr(settings, other)):
            yield name, f"and {PREFIX}_{other.upper()} belong together: set both or neither"
    for folder in settings.problem_folders:
        if not (folder.is_absolute() and folder.is_dir()):
            yield "problem_roots", f"has {str(folder)!r}: expected absolute paths of folders"
