"""Models of the bodies of requests, and the response to a decision."""

from pydantic import BaseModel, ConfigDict, model_validator

from ingest.decisions import DecisionResult
from ingest.http.fields import Text
from shared.api.queues import DecisionResponse


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
