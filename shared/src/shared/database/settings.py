"""Settings of `python -m shared.database`, the only reader of its environment."""

import os
from dataclasses import dataclass, field
from typing import Annotated

from shared.servers.postgresql import ROLES
from shared.settings import Doc, read_settings

PREFIX = "WARPBOARD_DATABASE"
PASSWORD = Doc(
    "the password of a role, in the DSN of its service",
    "the service cannot log in; empty: the password stays, and a new role has none",
)


@dataclass(frozen=True)
class Settings:
    """Where the database is, and the passwords to set."""

    postgres_dsn: Annotated[
        str,
        Doc(
            "the database; the first time as a superuser, later also as `warpboard_owner`",
            "roles cannot be created: the command names the privilege that is missing",
        ),
    ] = field(repr=False)
    owner_password: Annotated[str, PASSWORD] = field(default="", repr=False)
    ingest_password: Annotated[str, PASSWORD] = field(default="", repr=False)
    ranker_password: Annotated[str, PASSWORD] = field(default="", repr=False)
    discord_edge_password: Annotated[str, PASSWORD] = field(default="", repr=False)
    backup_password: Annotated[str, PASSWORD] = field(default="", repr=False)

    def passwords(self) -> dict[str, str]:
        """Return the passwords to set, by role."""
        passwords = {f"warpboard_{name}": getattr(self, f"{name}_password") for name in ROLES}
        return {role: password for role, password in passwords.items() if password}


def load() -> Settings:
    """Read the settings. Raises Refused with everything that is wrong with them."""
    return read_settings(Settings, PREFIX, os.environ)
