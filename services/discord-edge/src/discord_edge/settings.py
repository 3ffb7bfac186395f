"""The settings of discord-edge; the only module that reads its environment."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from shared.settings import BadSettings, BusSettings, Doc, Listen, read_settings

PREFIX = "WARPBOARD_DISCORD_EDGE"
PER_SUBMISSION, PER_PROBLEM = "submission", "problem"
ROLES = ("creator", "moderator", "admin")
ROLES_FORMAT = "creator=<role>, moderator=<role> or admin=<role>, each an id or a name"
ADDRESSES = Doc(
    "addresses of the other services and of this one; `warpboard up` sets them",
    "commands answer that the platform cannot be reached",
)
PUBLISHING = Doc(
    "`true` creates the channels described below and posts there what the platform's log reports "
    "from then on; the log is read at `NATS_URL`",
    "`true` without `NATS_URL`: no start",
)


@dataclass(frozen=True)
class Settings(BusSettings):
    """Addresses, two secrets, who may do what where, and what is announced."""

    ingest_url: Annotated[str, ADDRESSES]
    postgres_dsn: Annotated[str, ADDRESSES]
    ops_listen: Annotated[Listen, ADDRESSES]
    guild: Annotated[
        int, Doc("the server's id", "Discord refuses the bot's requests, and its log says so")
    ]
    token: Annotated[
        str, Doc("the bot's token", "Discord refuses the bot, and its log says so")
    ] = field(repr=False)
    edge_token: Annotated[
        str,
        Doc(
            "the secret that ingest has as `WARPBOARD_INGEST_EDGE_TOKEN`, at least 16 characters "
            "([why](docs/login.md)); `warpboard up` generates it",
            "every command is refused",
        ),
    ] = field(repr=False)
    channels: Annotated[
        str,
        Doc(
            "ids of the channels where submissions are allowed, separated by commas",
            "submissions elsewhere are refused, with the allowed channels",
            "everywhere",
        ),
    ] = ""
    lobby: Annotated[
        str,
        Doc(
            "the id of the channel that shows new members what to do first, only with `PUBLIC`",
            "new members see nothing",
            "`general`",
        ),
    ] = ""
    contests: Annotated[
        str,
        Doc(
            "the id of the channel that announces contests, only with `PUBLIC`",
            "no start unless it is an id; contests are not announced where the bot may not write, "
            "and its log says so",
            "`general`",
        ),
    ] = ""
    roles: Annotated[
        str,
        Doc(
            "which server role stands for which platform role: "
            "`admin=<role>,moderator=<role>,creator=<role>`, each by its id or its name "
            "([why](docs/adr/discord.md)). `WARPBOARD_INGEST_EDGE_ROLES` says what they allow",
            "the wrong people may create problems or, with `EDGE_ROLES` and a role on the "
            "platform, moderate",
        ),
    ] = "creator=Leaderboard Creator,admin=Leaderboard Admin"
    api_url: Annotated[
        str,
        Doc(
            "another Discord, such as the simulated one",
            "the bot does not come online",
            "Discord's",
        ),
    ] = ""
    nats_url: Annotated[str, PUBLISHING] = field(default="", kw_only=True)
    public: Annotated[bool, PUBLISHING] = False
    podiums: Annotated[
        bool, Doc("`true` posts records and podiums too", "a busy leaderboard fills its channel")
    ] = False
    public_url: Annotated[
        str,
        Doc(
            "the public address of the platform; operators' pages and content that is too large "
            "for Discord are linked there",
            "links lead nowhere",
        ),
    ] = ""
    threads: Annotated[
        str,
        Doc(
            "one private thread per participant for each `submission`, or for each `problem`, "
            "which suits a busy server",
            "no start with another value",
        ),
    ] = PER_SUBMISSION

    @property
    def channel_ids(self) -> frozenset[int]:
        """The channels where users may submit."""
        return frozenset(int(part) for part in self.channels.split(",") if part.strip())

    @property
    def role_names(self) -> dict[str, str]:
        """The platform roles by the ids or names of the server roles that grant them."""
        pairs = [part.partition("=") for part in self.roles.split(",") if part.strip()]
        return {server_role.strip(): name.strip() for name, _, server_role in pairs}


def load() -> Settings:
    """Load the settings. Raises `BadSettings` with everything that is wrong with them."""
    return read_settings(Settings, PREFIX, os.environ, (_check,))


def _check(settings: Settings) -> None:
    pairs = (*_find_secret_problems(settings), *_find_server_problems(settings))
    if problems := [f"{PREFIX}_{name} {message}" for name, message in pairs]:
        raise BadSettings(problems)


def _find_secret_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    for name in ("token", "edge_token"):
        if not getattr(settings, name).strip():
            yield name.upper(), "is empty: see docs/login.md and the README"
    if settings.public and not settings.nats_url:
        yield "PUBLIC", f"announces events from NATS: set {PREFIX}_NATS_URL as well"


def _find_server_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each name of something on the Discord server that cannot be one."""
    channels = [part.strip() for part in settings.channels.split(",") if part.strip()]
    if not all(channel.isdecimal() for channel in channels):
        yield "CHANNELS", f"is {settings.channels!r}: expected ids separated by commas"
    for name in ("lobby", "contests"):
        channel = getattr(settings, name)
        if channel and not channel.isdecimal():
            yield name.upper(), f"is {channel!r}: expected the id of a channel"
    unknown_roles = sorted(set(settings.role_names.values()) - set(ROLES))
    if "" in settings.role_names:
        unknown_roles = [settings.roles]
    if unknown_roles:
        yield (
            "ROLES",
            f"names {unknown_roles[0]!r}: expected {ROLES_FORMAT}, separated by commas",
        )
    if settings.threads not in (PER_SUBMISSION, PER_PROBLEM):
        yield "THREADS", f"is {settings.threads!r}: expected {PER_SUBMISSION} or {PER_PROBLEM}"
