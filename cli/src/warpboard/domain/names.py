"""Valid names of participants, problems and tokens."""

import re

from shared.errors import Refused

PARTICIPANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
LENGTH_MAX = 32
VISIBLE = re.compile(r"[!-~]{1,512}\Z")
ANYONE = "participant"


def participant(name: str, option: str = "--as") -> str:
    """Check the name of a participant or an operator. Raises Refused."""
    if not PARTICIPANT.match(name):
        raise Refused(
            "invalid_credential",
            f"{name!r} is not a name: 1 to 32 of a-z 0-9 _ and -, a letter or digit first",
            option,
        )
    return name


def legal_participant(name: str) -> str:
    """Return the valid name that is nearest to an account name of this machine.

    >>> legal_participant("Ada.Lovelace"), legal_participant("_apt"), legal_participant("Zoë")
    ('ada_lovelace', 'apt', 'zo')
    """
    replaced = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower())
    return replaced.strip("_")[:LENGTH_MAX] or ANYONE


def checked_token(token: str, name: str) -> str:
    """Check that a token can be sent. Raises Refused without showing the token."""
    if not VISIBLE.match(token):
        raise Refused("bad_settings", f"{name} is not a token: 1 to 512 visible ASCII", name)
    return token
