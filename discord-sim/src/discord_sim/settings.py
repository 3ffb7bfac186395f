"""The settings of the simulator; the only module that reads its environment."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from discord_sim.documents import GatewaySchema, OpenApiDocument, Validators

OPENAPI, GATEWAY = "WARPBOARD_DISCORD_OPENAPI", "WARPBOARD_DISCORD_GATEWAY_SCHEMA"
LISTEN, TOKEN = "WARPBOARD_DISCORD_SIM_LISTEN", "WARPBOARD_DISCORD_SIM_TOKEN"
GUILD, LOBBY = "WARPBOARD_DISCORD_SIM_GUILD", "WARPBOARD_DISCORD_SIM_LOBBY"
ROLES, USERS = "WARPBOARD_DISCORD_SIM_ROLES", "WARPBOARD_DISCORD_SIM_USERS"
MANAGE = "manage_guild"


class SettingsError(ValueError):
    """An invalid setting: its name, its value, and what was expected."""


class InitialRole(NamedTuple):
    """A role that the server begins with; its users may manage the server or not."""

    name: str
    id: str
    is_manager: bool


class InitialUser(NamedTuple):
    """A user whom the server begins with, and the id of their role, "" for none."""

    name: str
    id: str
    role: str


@dataclass(frozen=True)
class Settings:
    """The address, the bot's token, Discord's documents, and what the server begins with.

    Without an id, the server and its lobby get new ones.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str = "simulated.bot.token"  # noqa: S105 - nobody's
    openapi: Path | None = None
    gateway: Path | None = None
    guild: str = ""
    lobby: str = ""
    roles: tuple[InitialRole, ...] = ()
    users: tuple[InitialUser, ...] = ()

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
    roles = tuple(_read_roles(variables))
    return Settings(
        host,
        int(port),
        variables.get(TOKEN, Settings.token),
        _find_file(variables, OPENAPI),
        _find_file(variables, GATEWAY),
        _read_id(variables, GUILD),
        _read_id(variables, LOBBY),
        roles,
        tuple(_read_users(variables, {role.name: role.id for role in roles})),
    )


def _read_id(variables: Mapping[str, str], name: str) -> str:
    identity = variables.get(name, "")
    if identity and not identity.isdecimal():
        raise SettingsError(f"{name} is {identity!r}: expected an id such as 1300000000000000000")
    return identity


def _read_roles(variables: Mapping[str, str]) -> Iterator[InitialRole]:
    for text in filter(None, variables.get(ROLES, "").split(",")):
        name, identity, permission = _split_entry(text)
        if not name or not identity.isdecimal() or permission not in ("", MANAGE):
            raise SettingsError(f"{ROLES} has {text!r}: expected name=id or name=id:{MANAGE}")
        yield InitialRole(name, identity, is_manager=permission == MANAGE)


def _read_users(variables: Mapping[str, str], role_ids: Mapping[str, str]) -> Iterator[InitialUser]:
    for text in filter(None, variables.get(USERS, "").split(",")):
        name, identity, role = _split_entry(text)
        if not name or not identity.isdecimal() or role not in ("", *role_ids):
            reason = f"expected name=id or name=id:role with a role of {ROLES}"
            raise SettingsError(f"{USERS} has {text!r}: {reason}")
        yield InitialUser(name, identity, role_ids.get(role, ""))


def _split_entry(text: str) -> tuple[str, str, str]:
    name, _, value = text.strip().partition("=")
    identity, _, detail = value.partition(":")
    return name, identity, detail


def _find_file(variables: Mapping[str, str], name: str) -> Path | None:
    if not variables.get(name):
        return None
    path = Path(variables[name])
    if not path.is_file():
        raise SettingsError(f"{name} is {path}: expected an existing file")
    return path
