"""What the simulator is told at start; the only reader of its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from discord_sim.judges import Judges
from discord_sim.judges.gateway import GatewaySchema
from discord_sim.judges.openapi import Document

OPENAPI, GATEWAY = "WARPBOARD_DISCORD_OPENAPI", "WARPBOARD_DISCORD_GATEWAY_SCHEMA"
LISTEN, TOKEN = "WARPBOARD_DISCORD_SIM_LISTEN", "WARPBOARD_DISCORD_SIM_TOKEN"
GUILD = "WARPBOARD_DISCORD_SIM_GUILD"


class BadSettings(ValueError):  # noqa: N818 - it reads as a sentence where it is printed
    """A setting that cannot be used: which, what it is, and what it must be."""


@dataclass(frozen=True)
class Settings:
    """Where to listen, the bot's token, the server's id if it is to have a certain one, and
    Discord's documents if they are there."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = "simulated.bot.token"  # noqa: S105 - nobody's
    openapi: Path | None = None
    gateway: Path | None = None
    guild: str = ""

    def judges(self) -> Judges:
        """Who judges the bot; without documents, the rules in prose alone."""
        return Judges(
            Document.read(self.openapi) if self.openapi else None,
            GatewaySchema.read(self.gateway) if self.gateway else None,
        )


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings. Errors: BadSettings."""
    told = os.environ if environment is None else environment
    host, _, port = told.get(LISTEN, "127.0.0.1:0").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BadSettings(f"{LISTEN} is {told[LISTEN]!r}: expected host:port, such as 127.0.0.1:0")
    token, guild = told.get(TOKEN, Settings.token), told.get(GUILD, "")
    if guild and not guild.isdecimal():
        raise BadSettings(f"{GUILD} is {guild!r}: expected an id such as 1300000000000000000")
    return Settings(host, int(port), token, _file(told, OPENAPI), _file(told, GATEWAY), guild)


def _file(told: Mapping[str, str], name: str) -> Path | None:
    if not told.get(name):
        return None
    path = Path(told[name])
    if not path.is_file():
        raise BadSettings(f"{name} is {path}: expected a file that is there")
    return path
