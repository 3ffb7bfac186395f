"""Bodies of requests: JSON, or a form of JSON and files."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from discord_sim.cdn import Blob
from discord_sim.errors import ApiError, Problem, invalid
from discord_sim.judges.openapi import JSON

REQUEST_BYTES_MAX = 25 * 1024 * 1024
FORM = "multipart/form-data"
UNREADABLE = ApiError(400, 50109, "The request body contains invalid JSON.")

Read = tuple[Any, dict[int, Blob]]


async def read(request: web.Request) -> Read:
    """What was sent. Errors: ApiError 40005, 50035 and 50109."""
    if (request.content_length or 0) > REQUEST_BYTES_MAX:
        raise ApiError(413, 40005, "Request entity too large")
    if not request.can_read_body:
        return None, {}
    if request.content_type == FORM:
        return await _form(request)
    if request.content_type != JSON:
        told = f'Expected "Content-Type" header to be {JSON}, got {request.content_type}'
        raise invalid([Problem((), told, "CONTENT_TYPE_INVALID")])
    return _json(await request.read()), {}


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise UNREADABLE from error


async def _parts(request: web.Request) -> AsyncIterator[BodyPartReader]:
    """The parts of a form. Errors: ApiError 50035 where it is none."""
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                raise invalid([Problem((), "a form within a form", "FORM_PART")])
            yield part
    except (BadHttpMessage, ValueError) as error:
        raise invalid([Problem((), "the form cannot be read", "FORM_PART")]) from error


async def _form(request: web.Request) -> Read:
    body: Any = {}
    files: dict[int, Blob] = {}
    async for part in _parts(request):
        name = part.name or ""
        data = bytes(await part.read(decode=True))
        if name == "payload_json":
            body = _json(data)
        elif found := re.fullmatch(r"files\[(\d+)\]", name):
            media = part.headers.get("Content-Type", "application/octet-stream")
            files[int(found[1])] = Blob(part.filename or "unknown", media, data)
        else:
            raise invalid([Problem((name,), "unexpected part of a form", "FORM_PART")])
    return body, files
