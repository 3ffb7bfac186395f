"""Names of participants: which are valid, and the refusals when names were lost."""

import re

from shared.errors import Refused

NAME_LENGTH_MAX = 32
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
LOST = (
    "the platform has lost its table of names: no name can be given until an operator restores "
    "the backup (`warpboard server restore`) or starts over (`warpboard admin account adopt`)"
)


def check_name(name: str, code: str = "invalid_request", field: str = "name") -> str:
    """Return a name if it is valid. Raises `Refused` with this code, naming the field."""
    if not NAME.match(name):
        message = f"{name!r} is not a name: use 1 to 32 of a-z 0-9 _ -, first a letter or digit"
        raise Refused(code, message, field)
    return name


def accounts_lost() -> Refused:
    """Return the refusal for requests that need names while the tables are lost."""
    return Refused("accounts_lost", LOST)


def name_lost(account: str) -> Refused:
    """Return the refusal for an account whose name was lost."""
    message = (
        f"the platform lost the name of your account {account}: ask an operator to give it one "
        f"(`warpboard admin participant rename {account} NAME`), then try again"
    )
    return Refused("name_lost", message)
