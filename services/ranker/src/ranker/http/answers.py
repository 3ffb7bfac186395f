"""How a read is answered: JSON with a strong ETag, or that nothing changed."""

import hashlib
from typing import Annotated, TypeVar

import msgspec
from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from shared.answers import Answer

LIMIT_MAX = 200
# The largest integer that every reader of JSON keeps whole.
NUMBER_MAX = 2**53 - 1
ETAG_CHARS = 22

CURSOR_CHARS_MAX = 256

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
ProblemVersion = Annotated[int, Field(ge=1, le=2**31 - 1)] | None


async def _reached(request: Request, number: Annotated[int, Path(ge=1)]) -> int:
    """A number, once what the log has of it can be read."""
    await request.app.state.reached(number)
    return number


NumberInPath = Annotated[int, Depends(_reached)]
Body = TypeVar("Body")


class Asking(BaseModel):
    """What a read is asked for beside its path."""

    model_config = ConfigDict(frozen=True)


class Paged(Asking):
    """Which page of a list."""

    cursor: Annotated[str, Field(max_length=CURSOR_CHARS_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50


def answered(request: Request, body: Body, version: int | None = None) -> Answer[Body]:
    """A body as JSON, or 304 for who has just these bytes.

    The tag begins with the version of what is shown, or the checkpoint that it was read at.
    """
    data = msgspec.json.encode(body)
    etag = f'"{"" if version is None else f"{version}."}{_digest(data)}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if etag in _tags(request):
        return Answer(None, 304, headers)
    return Answer(data, 200, headers, "application/json")


def version_known(request: Request) -> int | None:
    """The version that a reader has, by its If-None-Match; None if it says none of ours."""
    for tag in _tags(request):
        version = tag.strip('"').partition(".")[0]
        if version.isdecimal() and len(version) < len(str(NUMBER_MAX)):
            return int(version)
    return None


def _tags(request: Request) -> list[str]:
    text = request.headers.get("if-none-match", "")
    return [tag.strip().removeprefix("W/") for tag in text.split(",")]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:ETAG_CHARS]
