"""Responses to reads: JSON with a strong ETag, or 304 if nothing changed; cursors of lists."""

import base64
import binascii
import hashlib
import time
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from fastapi import Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from shared.errors import Refused
from shared.http import TypedResponse

LIMIT_MAX = 200
# The largest integer that every JSON parser keeps exactly.
NUMBER_MAX = 2**53 - 1
ETAG_CHARS = 22

CURSOR_CHARS_MAX = 256

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
ProblemVersion = Annotated[int, Field(ge=1, le=2**31 - 1)] | None


NumberInPath = Annotated[int, Path(ge=1)]
Body = TypeVar("Body")


class QueryParams(BaseModel):
    """The query parameters of a read."""

    model_config = ConfigDict(frozen=True)


class PageParams(QueryParams):
    """The query parameters of a paged list."""

    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50


def json_response(request: Request, body: Body, version: int | None = None) -> TypedResponse[Body]:
    """A body as JSON, or 304 for a reader who has the same bytes.

    The ETag begins with the version of what is shown, or with the checkpoint it was read at.
    """
    data = msgspec.json.encode(body)
    digest = hashlib.sha256(data).hexdigest()[:ETAG_CHARS]
    etag = f'"{"" if version is None else f"{version}."}{digest}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if etag in known_tags(request.headers):
        return TypedResponse(None, 304, headers)
    return TypedResponse(data, 200, headers, "application/json")


def known_version(request: Request) -> int | None:
    """The version in the reader's If-None-Match; None if it has none of ours."""
    for tag in known_tags(request.headers):
        version = tag.strip('"').partition(".")[0]
        if version.isdecimal() and len(version) < len(str(NUMBER_MAX)):
            return int(version)
    return None


def known_tags(headers: Mapping[str, str]) -> list[str]:
    """The ETags in the reader's If-None-Match."""
    text = headers.get("if-none-match", "")
    return [tag.strip().removeprefix("W/") for tag in text.split(",")]


CURSOR_AGE_S_MAX = 3600.0
# Made within one minute, two cursors of one place are equal, and so are the pages that have them.
MADE_AT_STEP_S = 60.0
# The clock of the machine that made a cursor may be this much ahead of ours.
AHEAD_S_MAX = 60.0

_Kind = TypeVar("_Kind", bound="Cursor")


class Cursor(msgspec.Struct, frozen=True, kw_only=True, tag_field="k"):
    """When it was made, and the sequence that the first page was read at."""

    made_at: float
    as_of: int


def cursor_made_at() -> float:
    """The time of a new cursor."""
    return time.time() // MADE_AT_STEP_S * MADE_AT_STEP_S


def encode_cursor(cursor: Cursor) -> str:
    """Encode a cursor for readers."""
    encoded = base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")
    assert len(encoded) <= CURSOR_CHARS_MAX, "cursors are short"
    return encoded


def decode_cursor(carried: str, kind: type[_Kind]) -> _Kind:
    """Decode a cursor. Raises Refused `bad_cursor`, or `cursor_expired` after an hour."""
    padded = carried + "=" * (-len(carried) % 4)
    try:
        data = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(data, type=kind)
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        reason = "the cursor is not from this list: start without one"
        raise Refused("bad_cursor", reason, "cursor") from error
    age_s = time.time() - cursor.made_at
    if age_s < -AHEAD_S_MAX:
        raise Refused("bad_cursor", "the cursor is from the future: start without one", "cursor")
    if age_s > CURSOR_AGE_S_MAX:
        raise expired_cursor()
    return cursor


def expired_cursor() -> Refused:
    """The error for a cursor whose page is no longer available."""
    return Refused("cursor_expired", "the cursor is too old: start without one", "cursor")
