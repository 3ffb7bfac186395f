"""JSON bodies that are types of the API, which clients share."""

import asyncio
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from shared.api.fields import explain_invalid
from shared.errors import Refused
from shared.http import SCHEMA_REF

T = TypeVar("T", bound=msgspec.Struct)
JSON = "application/json"


def document_json(model: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the OpenAPI request body of a route that calls `read_json`."""
    schema = {"$ref": SCHEMA_REF.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


async def read_json(request: Request, model: type[T]) -> T:
    """Return the body of a request as a type of the API. Raises Refused (`invalid_request`)."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refused("invalid_request", f"the body must be {JSON}", "body")
    body = await request.body()
    try:
        return await asyncio.to_thread(msgspec.json.decode, body, type=model)
    except msgspec.ValidationError as error:
        field, problem = explain_invalid(error)
        raise Refused(
            "invalid_request", f"{field or 'body'}: {problem}", field or "body"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("invalid_request", f"the body is not JSON: {error}", "body") from error
