"""Who asks: a participant by name."""

import re
from typing import Annotated

from fastapi import Depends, Header

from shared.errors import Refused

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")


def checked_name(name: str | None, header: str, field: str) -> str:
    """A name as it may come in a header. Errors: Refused, with the header to send."""
    if not name:
        raise Refused("missing_credential", f"say who you are: header {header}", field)
    if not NAME.match(name):
        what = f"{name!r} is no name: 1 to 32 of a-z 0-9 _ and -, a letter or digit first"
        raise Refused("invalid_credential", what, field)
    return name


def participant(warpboard_participant: Annotated[str | None, Header()] = None) -> str:
    """The participant's name from the header Warpboard-Participant. Errors: Refused."""
    return checked_name(warpboard_participant, "Warpboard-Participant", "participant")


Participant = Annotated[str, Depends(participant)]
