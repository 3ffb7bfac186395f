"""What requests of operators and participants say, and how a decision is answered."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from ingest.http import shapes
from ingest.service.decisions import Made

TEXT_LENGTH_MAX = 500
APPEAL_LENGTH_MAX = 10_000
NOTE_LENGTH_MAX = 500

# For it goes into the log for ever, and onto people's screens: nothing that steers a terminal,
# breaks a line or turns the direction of reading.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}+$")]
NoteText = Annotated[str, Field(max_length=NOTE_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")]
Tag = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_.-]{0,31})?$")]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
IdInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
# A participant by name or, where that was lost, by the account, which is longer than any name.
NAME_OR_ACCOUNT = r"^([a-z0-9][a-z0-9_-]{0,31}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
NameOrAccount = Annotated[str, Field(pattern=NAME_OR_ACCOUNT)]
NameInPath = Annotated[str, Path(pattern=NAME_OR_ACCOUNT)]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$")]
SlugInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$")]
NumberInPath = Annotated[int, Path(ge=1)]


class Body(BaseModel):
    """A request's body: no key beyond its own, and each value of the kind that it is said to be."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Why(Body):
    """Why an operator does what the route says."""

    reason: Text


def shown(made: Made) -> shapes.Made:
    """A decision as an answer; `event` is null if it was so already."""
    kind = None if made.fact is None else type(made.fact).__name__
    return {"event": kind, "seq": made.seq}
