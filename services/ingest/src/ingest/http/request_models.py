"""Request models for operators and participants, and the response to a decision."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingest.decisions import DecisionResult
from shared.api.queues import DecisionResponse

TEXT_LENGTH_MAX = 500
APPEAL_LENGTH_MAX = 10_000
NOTE_LENGTH_MAX = 500

# These texts stay in the log for ever and appear on screens: no control characters, no line breaks
# and no marks that change the direction of reading.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}+$")]
NoteText = Annotated[str, Field(max_length=NOTE_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")]
Tag = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_.-]{0,31})?$")]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
IdInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
# A participant by name or, if the name was lost, by account, which is longer than any name.
NAME_OR_ACCOUNT = r"^([a-z0-9][a-z0-9_-]{0,31}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
NameOrAccount = Annotated[str, Field(pattern=NAME_OR_ACCOUNT)]
NameInPath = Annotated[str, Path(pattern=NAME_OR_ACCOUNT)]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$")]
SlugInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$")]
NumberInPath = Annotated[int, Path(ge=1)]


class RequestModel(BaseModel):
    """A request body: unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FormModel(BaseModel):
    """A form: unknown fields are refused, and an empty field counts as missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_fields(cls, fields: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in fields.items() if value != ""}


class ReasonRequest(RequestModel):
    """Why an operator does this."""

    reason: Text


def decision_response(result: DecisionResult) -> DecisionResponse:
    """Return the response for a decision; `event` is null if nothing had to change."""
    return DecisionResponse(event=result.event, seq=result.seq)
