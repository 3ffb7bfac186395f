"""Requests: the types of their fields, and the base models of their bodies and forms."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shared.api.fields import PRINTABLE

TEXT_LENGTH_MAX = 500
APPEAL_LENGTH_MAX = 10_000
SUBMISSION_NOTE_LENGTH_MAX = 500
Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}+$")]
SubmissionNoteText = Annotated[
    str, Field(max_length=SUBMISSION_NOTE_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")
]
Tag = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_.-]{0,31})?$")]
ID = r"^[A-Za-z0-9_-]{1,64}$"
Id = Annotated[str, Field(pattern=ID)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
# A participant by name or, if the name was lost, by account, which is longer than any name.
NAME_OR_ACCOUNT = r"^([a-z0-9][a-z0-9_-]{0,31}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
NameOrAccount = Annotated[str, Field(pattern=NAME_OR_ACCOUNT)]
SLUG = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$"
Slug = Annotated[str, Field(pattern=SLUG)]
PROBLEMS_MAX = 100
Slugs = Annotated[list[Slug], Field(max_length=PROBLEMS_MAX)]
# The number of a submission, a token or a dead letter.
Number = Annotated[int, Field(ge=1)]
Role = Literal["creator", "moderator", "admin"]


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
