"""A run as it is presented, and how a response of the API is decoded."""

from typing import Any, TypeVar

import msgspec

from shared.api.cases import Case
from shared.api.submissions import File, FullSubmission
from shared.errors import Failed

JsonObject = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run on this machine: its result and its measurements, as a submission has them."""

    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    took_s: float | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    cases: list[Case] = []
    files: list[File] = []
    environment: dict[str, str] = {}
    log_head: str = ""
    log_tail: str = ""


AnyRun = Run | FullSubmission


def parse_response(response: JsonObject, expected_type: type[T]) -> T:
    """Convert a response to its expected type. Errors: Failed if it has another shape."""
    try:
        return msgspec.convert(response, expected_type)
    except msgspec.ValidationError as error:
        reason = f"the platform's response is not a {expected_type.__name__}"
        raise Failed(f"{reason}: {error}") from error
