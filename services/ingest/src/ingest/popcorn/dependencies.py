"""What all routes of the client share.

Some requests are described here and parsed by hand, to refuse them with 400.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request
from pydantic import BaseModel, ConfigDict

from ingest.access.callers import Caller
from ingest.bootstrap import Ingest
from ingest.http.auth import Authenticator
from ingest.popcorn.read_client import RETRY_PAUSE_S, RETRY_S_MAX, ReadClient
from ingest.reads import StreamLimiter
from shared.blobs import BlobStore
from shared.clock import now
from shared.errors import Failed, Refused

# The client sends no reason.
NO_REASON = "by the client's admin command"

TAG = "popcorn-cli"
NUMBER_MAX = 2**53 - 1
SOURCE: Mapping[str, Any] = {"type": "string", "format": "binary"}
TEXT: Mapping[str, Any] = {"type": "string"}
INDEX: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9]{0,3}$"}


@dataclass(frozen=True)
class ProblemSources:
    """Where problems may come from; empty means nowhere."""

    roots: tuple[Path, ...] = ()
    repositories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dependencies:
    """The services, the read side, authentication and blobs."""

    ingest: Ingest
    auth: Authenticator
    read_client: ReadClient
    blobs: BlobStore
    is_well: Callable[[], Awaitable[str]]
    profiler_gpu: str = ""
    clock: Callable[[], datetime] = now
    streams: StreamLimiter | None = None
    sources: ProblemSources = ProblemSources()


class ClientLeaderboard(NamedTuple):
    """A leaderboard, and its GPU types in order."""

    slug: str
    gpus: list[str]


async def find_leaderboard(deps: Dependencies, caller: Caller, name: str) -> ClientLeaderboard:
    """Return a leaderboard by name. Raises `Refused`: 404, or 401 or 403 for a closed one.

    A token that is limited to other problems may still look at public leaderboards.
    """
    slug = name.lower()
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
    return ClientLeaderboard(slug, published.gpus)


def parse_bounded(request: Request, name: str, default: int, bounds: tuple[int, int | None]) -> int:
    """Return an integer query parameter. Raises `Refused`, naming the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    low, high = bounds
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    if not is_number or int(text) < low or (high is not None and int(text) > high):
        expected = f"at least {low}" if high is None else f"{low} to {high}"
        raise Refused("bad_query", f"{name} must be {expected}, not {text[:20]!r}", name)
    return int(text)


def parse_number(text: str) -> int:
    """Return a submission number from a path. Raises `Refused` (`unknown_submission`)."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:16]) < 10**15):
        raise Refused("unknown_submission", f"{text[:40]!r} is not a submission id", "id")
    return int(text)


def retry_while_unavailable(
    authenticate: Callable[[Request], Awaitable[Caller]],
) -> Callable[[Request], Awaitable[Caller]]:
    """Retry authentication while it is unavailable: the client never repeats a poll."""

    async def retry(request: Request) -> Caller:
        retry_until = time.monotonic() + RETRY_S_MAX
        while True:
            try:
                return await authenticate(request)
            except Failed:
                if time.monotonic() > retry_until:
                    raise
                await asyncio.sleep(RETRY_PAUSE_S)

    return retry


class PopcornRequest(BaseModel):
    """A request body of the client: strict types, unknown fields ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


def _multipart_form(required: Mapping[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a body of multipart fields."""
    form = {"type": "object", "required": [*required], "properties": {**required, **optional}}
    content = {"multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def file_form() -> dict[str, Any]:
    """Describe one source file."""
    return _multipart_form({"file": SOURCE}, {})


def profile_form() -> dict[str, Any]:
    """Describe a source file, and the leaderboard with whose cases it is profiled."""
    return _multipart_form({"file": SOURCE, "leaderboard": TEXT}, {"benchmark_index": INDEX})


def page_parameters(
    default: int, limit_max: int, offset_max: int = NUMBER_MAX
) -> list[dict[str, Any]]:
    """Describe the parameters of a page of a list."""
    limit = {"type": "integer", "default": default, "minimum": 1, "maximum": limit_max}
    offset = {"type": "integer", "default": 0, "minimum": 0, "maximum": offset_max}
    return [
        {"name": "limit", "in": "query", "schema": limit},
        {"name": "offset", "in": "query", "schema": offset},
    ]


# The parameter with a leaderboard's integer id.
LEADERBOARD_ID = {
    "name": "leaderboard_id",
    "in": "query",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX},
}
