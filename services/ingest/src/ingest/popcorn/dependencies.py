"""What all routes of the client share.

Some requests are described here and parsed by hand, to refuse them with 400.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict

from ingest.access.callers import Caller
from ingest.bootstrap import Ingest
from ingest.http.auth import Authenticator
from ingest.popcorn.read_client import ReadClient, retry_while_unavailable
from ingest.reads import StreamLimiter
from shared.blobs import BlobStore
from shared.clock import now
from shared.errors import Refused

# The client sends no reason.
NO_REASON = "by the client's admin command"
NUMBER_MAX = 2**53 - 1
TEXT: Mapping[str, Any] = {"type": "string"}
SOURCE: Mapping[str, Any] = {"type": "string", "format": "binary"}


@dataclass(frozen=True)
class Dependencies:
    """The services, the read side, authentication and blobs.

    Problems come from folders under `problem_roots` and from `repositories`, URLs by name.
    """

    ingest: Ingest
    auth: Authenticator
    read_client: ReadClient
    blobs: BlobStore
    is_well: Callable[[], Awaitable[str]]
    profiler_gpu: str = ""
    clock: Callable[[], datetime] = now
    streams: StreamLimiter | None = None
    problem_roots: tuple[Path, ...] = ()
    repositories: Mapping[str, str] = field(default_factory=dict)


async def leaderboard_gpus(deps: Dependencies, caller: Caller, slug: str) -> list[str]:
    """Return the GPU types of a leaderboard, in order.

    Raises `Refused`: 404, or 401 or 403 for a closed one. A token that is limited to other problems
    may still look at public leaderboards.
    """
    published = await deps.ingest.intake.published(slug)
    viewer = replace(caller, boards=frozenset(caller.reader.boards), problems=frozenset())
    try:
        deps.auth.check_sees(viewer, slug)
    except Refused as refused:
        if refused.code != "no_access":
            raise
        message = (
            f"{slug} is a closed leaderboard: join it with an invite, by `popcorn-cli join CODE`"
        )
        raise Refused(refused.code, message, refused.field) from refused
    return published.gpus


def parse_bounded(
    request: Request, name: str, default: int, low: int, high: int = NUMBER_MAX
) -> int:
    """Return an integer query parameter. Raises `Refused`, naming the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    if not is_number or not low <= int(text) <= high:
        expected = f"at least {low}" if high == NUMBER_MAX else f"{low} to {high}"
        raise Refused("bad_query", f"{name} must be {expected}, not {text[:20]!r}", name)
    return int(text)


def parse_page(
    request: Request, limit: int, limit_max: int, offset_max: int = NUMBER_MAX
) -> tuple[int, int]:
    """Return the limit and the offset of a page. Raises `Refused`."""
    return (
        parse_bounded(request, "limit", limit, 1, limit_max),
        parse_bounded(request, "offset", 0, 0, offset_max),
    )


def parse_number(text: str) -> int:
    """Return a submission number from a path. Raises `Refused` (`unknown_submission`)."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:16]) < 10**15):
        raise Refused("unknown_submission", f"{text[:40]!r} is not a submission id", "id")
    return int(text)


def own_reader(deps: Dependencies) -> Callable[[Request], Awaitable[Caller]]:
    """Return a dependency: a participant who reads their own submissions.

    It retries while authentication is unavailable: the client never repeats a poll.
    """
    authenticate = deps.auth.participant("read:own")

    async def require_reader(request: Request) -> Caller:
        return await retry_while_unavailable(partial(authenticate, request))

    return require_reader


class PopcornRequest(BaseModel):
    """A request body of the client: strict types, unknown fields ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


def upload_form(
    required: Mapping[str, Any] | None = None, optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describe a multipart body: a source file and more fields."""
    needed = {"file": SOURCE, **(required or {})}
    form = {"type": "object", "required": [*needed], "properties": {**needed, **(optional or {})}}
    content = {"multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def integer_parameter(name: str, low: int, high: int = NUMBER_MAX, **more: Any) -> dict[str, Any]:
    """Describe an integer query parameter."""
    schema = {"type": "integer", "minimum": low, "maximum": high, **more}
    return {"name": name, "in": "query", "schema": schema}


def page_parameters(
    limit: int, limit_max: int, offset_max: int = NUMBER_MAX
) -> list[dict[str, Any]]:
    """Describe the parameters of a page of a list."""
    return [
        integer_parameter("limit", 1, limit_max, default=limit),
        integer_parameter("offset", 0, offset_max, default=0),
    ]
