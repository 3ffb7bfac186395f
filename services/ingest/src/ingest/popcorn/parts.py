"""What every theme of the client's routes is made of."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from fastapi import Request

from ingest.domain.callers import Caller
from ingest.http.reads import Streams
from ingest.http.who import Gate
from ingest.popcorn.asking import HELD_S_MAX, PAUSE_S, Asking
from ingest.service import Ingest
from shared.blobs import Blobs
from shared.clock import now
from shared.errors import Failed, Refused

# The client asks for none.
NO_REASON = "by the client's admin command"


@dataclass(frozen=True)
class Parts:
    """The two sides, who asks, and where large things lie."""

    ingest: Ingest
    gate: Gate
    asking: Asking
    blobs: Blobs
    is_well: Callable[[], Awaitable[str]]
    profiler_gpu: str = ""
    clock: Callable[[], datetime] = now
    streams: Streams | None = None


class Board(NamedTuple):
    """A problem that may be asked about, and its GPU types in order."""

    slug: str
    gpus: list[str]


async def board(parts: Parts, caller: Caller, name: str) -> Board:
    """A leaderboard by name. Errors: Refused, 404; of a closed one 401 or 403 for who is out.

    What is public a token may look at that is limited to other problems.
    """
    slug = name.lower()
    published = await parts.ingest.intake.published(slug)
    looking = replace(caller, boards=frozenset(caller.reader.boards), problems=frozenset())
    try:
        parts.gate.board(looking, slug)
    except Refused as refused:
        if refused.code != "no_access":
            raise
        what = f"{slug} is a closed leaderboard: join it with an invite, by `popcorn-cli join CODE`"
        raise Refused(refused.code, what, refused.field) from refused
    return Board(slug, published.gpus)


def bounded(request: Request, name: str, default: int, bounds: tuple[int, int | None]) -> int:
    """A whole number of the query. Errors: Refused, which names the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    low, high = bounds
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    if not is_number or int(text) < low or (high is not None and int(text) > high):
        upto = f"at least {low}" if high is None else f"{low} to {high}"
        raise Refused("bad_query", f"{name} is {upto}, not {text[:20]!r}", name)
    return int(text)


def number_of(text: str) -> int:
    """A submission's number in a path. Errors: Refused `unknown_submission`."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:16]) < 10**15):
        raise Refused("unknown_submission", f"{text[:40]!r} is no submission's id", "id")
    return int(text)


def patient(gate: Callable[[Request], Awaitable[Caller]]) -> Callable[[Request], Awaitable[Caller]]:
    """A gate that is asked again while it cannot tell, for the client asks a poll only once."""

    async def found(request: Request) -> Caller:
        until = time.monotonic() + HELD_S_MAX
        while True:
            try:
                return await gate(request)
            except Failed:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(PAUSE_S)

    return found
