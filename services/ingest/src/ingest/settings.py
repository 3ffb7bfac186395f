"""The settings of ingest; the only reader of its environment."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from ingest.evaluations.rules import EvaluationLimits
from ingest.identity.names import NAME
from ingest.reads.limits import OWN_DOWNLOADS_MAX, OWN_STREAMS_MAX
from ingest.submissions.admission import DEFAULT_LIMITS
from shared.evaluations import ITEMS_MAX
from shared.http_connections import HttpLimits, check_times
from shared.reader import check_key
from shared.settings import (
    LOOPBACK,
    Address,
    ApiListen,
    BadSettings,
    BusSettings,
    Doc,
    LocalWebhooks,
    OpsListen,
    ReaderKey,
    Replicas,
    Tracing,
    read_settings,
)

PREFIX = "WARPBOARD_INGEST"
TOKEN_LENGTH_MIN = 16
TOKEN = re.compile(rf"[!-~]{{{TOKEN_LENGTH_MIN},}}")
RATE = re.compile(r"[1-9][0-9]{0,6}/([1-9][0-9]{0,2} ?)?(second|minute|hour|day)s?\Z")
# The log is asked about all of a participant's open submissions at once.
OPEN_MAX = 1000
REQUEST_RATES = ("rate_per_token", "rate_per_address")
LOGIN_RATES = (
    *("signups_per_address", "passwords_per_address", "passwords_per_name"),
    *("logins_per_address", "cli_ids_per_address", "wrong_codes_per_address"),
)


TOO_FEW = "too low: people behind one address get 429"
EVALUATIONS = (
    "too low: evaluations get 429; too high: one participant keeps the agents busy that others' "
    "evaluations wait for"
)
REQUEST_LIMITS = Doc(
    "limits on requests; empty means no limit", f"{TOO_FEW}; no limit: one client can delay others"
)
SLOW_CLIENTS = Doc(
    "seconds allowed for a request's head, and for its body in addition to one per 16 KiB; tests "
    "shorten them",
    "less: slow clients get 408; more: idle clients occupy connections longer",
)
LOGIN_FAILS = "logins with it fail, with the reason of the provider or `login_refused`"
GITHUB = Doc("an OAuth application at GitHub; set both or neither", LOGIN_FAILS, group="login")
DISCORD = Doc("an application at Discord; set both or neither", LOGIN_FAILS, group="login")
PROVIDERS = Doc(
    "another GitHub or Discord: `https://github.example.org` with "
    "`https://github.example.org/api/v3`",
    "logins answer that the provider cannot be reached",
    "the public ones",
    "login",
)


@dataclass(frozen=True)
class Settings(BusSettings):
    """All settings; without an operator token, only roles make operators."""

    postgres_dsn: Address
    listen: ApiListen
    ops_listen: OpsListen
    ranker_url: Address
    reader_key: ReaderKey = field(repr=False)
    operator_token: Annotated[
        str,
        Doc(
            "at least 16 characters; whoever sends it is an operator",
            "without it, only roles make operators, and a new platform has none",
        ),
    ] = field(default="", repr=False)
    edge_token: Annotated[
        str,
        Doc(
            "the secret with which discord-edge acts for the users of the bot; at least 16 "
            "characters, and different from the operator's token",
            "if discord-edge has another one, every command of the bot is refused; whoever knows "
            "it may submit as any user of the bot",
            group="login",
        ),
    ] = field(default="", repr=False)
    edge_roles: Annotated[
        str,
        Doc(
            "`creator`, `moderator` and `admin`, separated by commas. With `creator`, the server's "
            "role of a creator or an admin alone lets a participant create leaderboards on "
            "Discord; with the others, a participant who also has the role on the platform may "
            "act as an operator there",
            "a role is missing: Discord refuses what its members do (`scope_missing`); too many: "
            "whoever takes over a Discord account with the role creates leaderboards or moderates",
            group="login",
        ),
    ] = ""
    replicas: Replicas = 1
    tracing: Tracing = False
    names_believed: Annotated[
        bool,
        Doc(
            "a participant is the one that the header `Warpboard-Participant` names",
            "refused unless `LISTEN` is loopback: anybody could be anyone",
        ),
    ] = False
    autolink: Annotated[
        str,
        Doc(
            "the participant that every CLI id is linked to",
            "refused unless `LISTEN` is loopback, as above",
        ),
    ] = ""
    webhooks_local: LocalWebhooks = False
    rate_per_token: Annotated[str, REQUEST_LIMITS] = "600/minute"  # noqa: S105  (a rate)
    rate_per_address: Annotated[str, REQUEST_LIMITS] = "600/minute"
    asks_licence: Annotated[
        bool,
        Doc(
            "participants choose a licence for [releases](docs/kernel-archive.md) before their "
            "first ranked submission",
            "false: nobody is asked, and their sources are in no release until they choose by "
            "themselves",
        ),
    ] = True
    queued_max: Annotated[
        int,
        Doc(
            "how many submissions may wait for a GPU type",
            "too low: `queue_full` although agents would come; too high: some wait until their "
            "deadline and end as `overdue_queued`",
        ),
    ] = DEFAULT_LIMITS.queued_max
    open_max: Annotated[
        int,
        Doc(
            f"how many submissions of one participant may be open, 1 to {OPEN_MAX}",
            "different values on several ingests: the highest one counts",
        ),
    ] = DEFAULT_LIMITS.open_max
    head_s: Annotated[float, SLOW_CLIENTS] = HttpLimits.head_s
    body_s: Annotated[float, SLOW_CLIENTS] = HttpLimits.body_s
    problem_roots: Annotated[
        str,
        Doc(
            "folders, separated by `:`, that `admin create-leaderboard` may read; empty disables "
            "it",
            "no start without such a folder; too many: an operator publishes any file in them",
            group="popcorn",
        ),
    ] = ""
    popcorn_unchecked: Annotated[
        str,
        Doc(
            "the reason why problems from there are published without a check, which the client "
            "cannot send; the problem's page shows it",
            "empty: `admin create-leaderboard` and `update-problems` are refused unless the "
            "request has the field `unchecked`",
            group="popcorn",
        ),
    ] = ""
    repositories: Annotated[
        str,
        Doc(
            "`owner/name` or `owner/name=ADDRESS`, separated by spaces; empty disables "
            "`update-problems`. Fetched with `git clone --depth 1`, at most 60 s and 200 MB; "
            "nothing in it is executed",
            "`update-problems` answers `unknown_repository` or `bad_repository`",
            group="popcorn",
        ),
    ] = ""
    profiler_gpu: Annotated[
        str,
        Doc(
            "the GPU type of the profiler service",
            "profiles of problems without that GPU type are refused (`unknown_gpu`)",
            "the first of the problem",
            "popcorn",
        ),
    ] = ""
    public_url: Annotated[
        str,
        Doc(
            "the public address; used in every link and redirect. Except on loopback it must be "
            "`https://`, because cookies are sent only over HTTPS",
            "another host than the one in the browser: logins end at the provider or are begun "
            "again",
            "`http://` and `LISTEN`",
            "login",
        ),
    ] = ""
    web_signup: Annotated[
        bool,
        Doc(
            "whether anyone may create an account with a name and a password at `/register`",
            "true: one person may have several accounts, each with its own quota",
            group="login",
        ),
    ] = False
    signups_per_address: Annotated[
        str,
        Doc(
            "new accounts by name and password, for each address",
            TOO_FEW,
            group="limits",
        ),
    ] = "200/hour"
    passwords_per_address: Annotated[
        str,
        Doc(
            "passwords that are tried, for each address",
            f"{TOO_FEW}; too high: passwords can be guessed faster",
            group="limits",
        ),
    ] = "60/15 minutes"
    passwords_per_name: Annotated[
        str,
        Doc(
            "passwords that are tried for each name by unknown browsers; further attempts are "
            "delayed, not refused",
            "too low: others can slow a participant's login; too high: passwords can be guessed "
            "faster",
            group="limits",
        ),
    ] = "20/hour"
    logins_per_address: Annotated[
        str,
        Doc(
            "device logins, and redirects to a provider, of each for each address",
            TOO_FEW,
            group="limits",
        ),
    ] = "60/minute"
    cli_ids_per_address: Annotated[
        str, Doc("CLI ids, for each address", TOO_FEW, group="limits")
    ] = "10/minute"
    wrong_codes_per_address: Annotated[
        str,
        Doc(
            "codes of invites to closed leaderboards that do not exist, for each address",
            f"{TOO_FEW}; too high: codes can be guessed faster",
            group="limits",
        ),
    ] = "200/hour"
    streams_per_address: Annotated[
        int,
        Doc(
            "live streams of readers who are not logged in, for each address",
            "too low: leaderboards behind one address are not live (`too_many_streams`); too high: "
            "one client may take all streams",
            group="limits",
        ),
    ] = OWN_STREAMS_MAX
    downloads_per_address: Annotated[
        int,
        Doc(
            "downloads at once of readers who are not logged in, for each address; others wait",
            "too low: downloads behind one address wait for each other; too high: one client "
            "delays everybody's",
            group="limits",
        ),
    ] = OWN_DOWNLOADS_MAX
    evaluation_items_max: Annotated[
        int, Doc("sources of one [evaluation](docs/evaluations.md)", EVALUATIONS, group="limits")
    ] = 256
    evaluation_token_s: Annotated[
        float,
        Doc(
            "seconds of device time for evaluations, for each token and day",
            EVALUATIONS,
            group="limits",
        ),
    ] = 86400.0
    evaluation_account_s: Annotated[
        float,
        Doc("the same for all tokens of a participant together", EVALUATIONS, group="limits"),
    ] = 345600.0
    evaluation_open_max: Annotated[
        int,
        Doc("evaluations of a participant that are not over", EVALUATIONS, group="limits"),
    ] = 64
    github_client_id: Annotated[str, GITHUB] = ""
    github_client_secret: Annotated[str, GITHUB] = field(default="", repr=False)
    discord_client_id: Annotated[str, DISCORD] = ""
    discord_client_secret: Annotated[str, DISCORD] = field(default="", repr=False)
    github_url: Annotated[str, PROVIDERS] = "https://github.com"
    github_api_url: Annotated[str, PROVIDERS] = "https://api.github.com"
    discord_url: Annotated[str, PROVIDERS] = "https://discord.com"

    @property
    def public_base(self) -> str:
        """Return the public URL of this platform, without a trailing slash."""
        return self.public_url.rstrip("/") or f"http://{self.listen}"

    @property
    def evaluation_limits(self) -> EvaluationLimits:
        """Return the limits on evaluations."""
        return EvaluationLimits(
            self.evaluation_items_max,
            self.evaluation_token_s,
            self.evaluation_account_s,
            self.evaluation_open_max,
        )

    @property
    def http_limits(self) -> HttpLimits:
        """Return the limits for slow clients."""
        return HttpLimits(self.head_s, self.body_s)

    @property
    def edge_confirmed(self) -> frozenset[str]:
        """Return the roles on Discord that ingest takes into account."""
        return frozenset(role.strip() for role in self.edge_roles.split(",") if role.strip())

    @property
    def problem_folders(self) -> tuple[Path, ...]:
        """Return the folders that problems may come from."""
        return tuple(Path(folder) for folder in self.problem_roots.split(":") if folder)


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them."""
    return read_settings(Settings, PREFIX, os.environ, CHECKS)


def _check(settings: Settings) -> None:
    finders = (_find_local_problems, _find_access_problems, _find_limit_problems, _find_problems)
    pairs = chain.from_iterable(find(settings) for find in finders)
    if problems := [f"{PREFIX}_{name.upper()} {message}" for name, message in pairs]:
        raise BadSettings(problems)


CHECKS: tuple[Callable[[Settings], object], ...] = (
    lambda settings: check_times(PREFIX, settings.http_limits),
    lambda settings: check_key(settings.reader_key, f"{PREFIX}_READER_KEY"),
    _check,
)


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
    if unknown_roles := sorted(settings.edge_confirmed - {"creator", "moderator", "admin"}):
        yield "edge_roles", f"names {unknown_roles[0]!r}: expected creator, moderator or admin"
    if settings.edge_confirmed and not settings.edge_token:
        yield "edge_roles", f"needs {PREFIX}_EDGE_TOKEN: set that as well"


def _find_limit_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each limit that cannot be parsed or admits nobody."""
    for name in (*REQUEST_RATES, *LOGIN_RATES):
        rate, may_be_empty = getattr(settings, name), name in REQUEST_RATES
        if not (RATE.match(rate) or (may_be_empty and not rate)):
            example = "600/minute, or nothing" if may_be_empty else "200/hour or 60/15 minutes"
            yield name, f"is {rate!r}: expected {example}"
    for name in ("queued_max", "streams_per_address", "downloads_per_address"):
        if getattr(settings, name) < 1:
            yield name, f"is {getattr(settings, name)}: expected at least 1"
    if not 1 <= settings.evaluation_items_max <= ITEMS_MAX:
        expected = f"expected 1 to {ITEMS_MAX}"
        yield "evaluation_items_max", f"is {settings.evaluation_items_max}: {expected}"
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
