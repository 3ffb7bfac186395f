"""The settings of the simulator; the only module that reads its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from discord_sim.documents import GatewaySchema, OpenApiDocument, Validators

OPENAPI, GATEWAY = "WARPBOARD_DISCORD_OPENAPI", "WARPBOARD_DISCORD_GATEWAY_SCHEMA"
LISTEN, TOKEN = "WARPBOARD_DISCORD_SIM_LISTEN", "WARPBOARD_DISCORD_SIM_TOKEN"
GUILD = "WARPBOARD_DISCORD_SIM_GUILD"


class SettingsError(ValueError):
    """An invalid setting: its name, its value, and what was expected."""


@dataclass(frozen=True)
class Settings:
    """The address, the bot's token, a fixed server id if needed, and Discord's documents."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = "simulated.bot.token"  # noqa: S105 - nobody's
    openapi: Path | None = None
    gateway: Path | None = None
    guild: str = ""

    def load_validators(self) -> Validators:
        """Load the validators; without documents, only the rules in code apply."""
        return Validators(
            OpenApiDocument.read(self.openapi) if self.openapi else None,
            GatewaySchema.read(self.gateway) if self.gateway else None,
        )


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. Raises `SettingsError`."""
    variables = os.environ if environment is None else environment
    host, _, port = variables.get(LISTEN, "127.0.0.1:0").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(
            f"{LISTEN} is {variables[LISTEN]!r}: expected host:port, such as 127.0.0.1:0"
        )
    token, guild = variables.get(TOKEN, Settings.token), variables.get(GUILD, "")
    if guild and not guild.isdecimal():
        raise SettingsError(f"{GUILD} is {guild!r}: expected an id such as 1300000000000000000")
    return Settings(
        host,
        int(port),
        token,
        _find_file(variables, OPENAPI),
        _find_file(variables, GATEWAY),
        guild,
    )


def _find_file(variables: Mapping[str, str], name: str) -> Path | None:
    if not variables.get(name):
        return None
    path = Path(variables[name])
    if not path.is_file():
        raise SettingsError(f"{name} is {path}: expected an existing file")
    return path
