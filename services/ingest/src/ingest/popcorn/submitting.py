"""Submissions from the client: taken in and polled, or followed in one stream."""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple, cast

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from ingest.domain.callers import SCOPE_OF_MODE, Caller, check_problem
from ingest.http.reads import Streams
from ingest.http.repeats import idempotency_key
from ingest.http.who import whence
from ingest.popcorn import asked, multipart
from ingest.popcorn.asked import TAG
from ingest.popcorn.parts import Parts, board
from ingest.popcorn.seen import Wait
from ingest.popcorn.shapes import Accepted, PublicMode, QuotaLeft, Streamed
from ingest.popcorn.standing import queue_told
from ingest.popcorn.stream import Follower, followed
from ingest.popcorn.words import MODES, instant
from ingest.service.batches import Receipt, Upload
from shared.answers import Answer, Documented
from shared.clock import now
from shared.errors import Failed, Refused
from shared.http import STOPPING, Live

# Said bare: a charset behind it is nothing that the client was written for.
EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
LOOK_S_MAX = 2.0
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


class Wish(NamedTuple):
    """Where a file is to be sent: the client's names, as they came."""

    leaderboard: str
    gpu: str
    mode: str


class Taken(NamedTuple):
    """A submission that is in the log."""

    caller: Caller
    receipt: Receipt
    mode: str


def submitting(parts: Parts) -> APIRouter:
    """The route that answers at once; the client polls for the rest."""
    router = APIRouter(tags=[TAG], route_class=Documented)

    @router.post(
        "/submission/{leaderboard}/{gpu}/{mode}", status_code=202, openapi_extra=asked.file()
    )
    async def submit(
        leaderboard: str, gpu: str, mode: str, request: Request, response: Response
    ) -> Accepted:
        """Take a file in; the answer comes after it is in the log."""
        taken = await take_in(parts, request, Wish(leaderboard, gpu, mode))
        response.headers.update(limits(taken.receipt))
        return await accepted(parts, taken)

    return router


class OfModes(Documented):
    """A route of three parts that is there only if the last one is a mode.

    It would shadow every other POST of three parts, so it comes last, too.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for it."""
        match, child = super().matches(scope)
        mode = child.get("path_params", {}).get("mode", "")
        is_ours = scope["method"] == "POST" and mode.lower() in MODES
        return (match, child) if is_ours else (Match.NONE, {})


class Told(Live):
    """A stream that says itself how it ends, when its process does too."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; Source: the ASGI specification."""
        await super().__call__({**scope, STOPPING: asyncio.Event()}, receive, send)


def streaming(parts: Parts) -> BaseRoute:
    """The route whose answer is the whole life of a submission."""
    streams = parts.streams or Streams(parts.asking.reads, parts.gate)

    async def stream(
        leaderboard: str, gpu: str, mode: str, request: Request
    ) -> Answer[Streamed] | Told:
        """Take a file in, and tell of it until it is over."""
        person = (await parts.gate.caller(request)).account or whence(request)
        streams.check(person)
        taken = await take_in(parts, request, Wish(leaderboard, gpu, mode))
        stopping = request.scope.get(STOPPING) or asyncio.Event()
        base = str(request.base_url).rstrip("/")
        told = followed(parts, taken.receipt.number, Follower(taken.caller, base, stopping))
        return Told(counted(told, person), 200, EVENT_STREAM | limits(taken.receipt))

    async def counted(
        told: AsyncGenerator[bytes, None], person: str
    ) -> AsyncGenerator[bytes, None]:
        with streams.one_more(person):
            async with aclosing(told):
                async for piece in told:
                    yield piece

    return OfModes(
        "/{leaderboard}/{gpu}/{mode}",
        stream,
        methods=["POST"],
        tags=[TAG],
        response_class=Response,
        responses=STREAM,
        openapi_extra=asked.file(),
    )


async def take_in(parts: Parts, request: Request, wish: Wish, vouched_by: str = "") -> Taken:
    """Take a file in, refusing in the contract's order. Errors: Refused; Failed.

    What an operator vouches for may come after the deadline.
    """
    # Whoever is refused while still sending hears a broken connection, so all is heard first.
    try:
        sent: multipart.Upload | Refused = await multipart.upload(request)
    except Refused as refused:
        sent = refused
    mode = MODES.get(wish.mode.lower())
    caller = await parts.gate.participant(SCOPE_OF_MODE[mode or "test"])(request)
    await check_where(parts, caller, wish)
    if isinstance(sent, Refused):
        raise sent
    upload = Upload(
        caller=caller,
        problem=wish.leaderboard.lower(),
        mode=str(mode),
        gpus=[wish.gpu],
        name=sent.name,
        source=sent.data,
        via="popcorn",
        idempotency_key=idempotency_key(request),
        vouched_by=vouched_by,
    )
    (receipt,) = await parts.ingest.intake.submit(upload)
    return Taken(caller, receipt, wish.mode.lower())


async def check_where(parts: Parts, caller: Caller, wish: Wish) -> None:
    """Refuse what cannot be submitted to at all, whatever the file. Errors: Refused; Failed."""
    await parts.ingest.intake.check_open()
    if wish.mode.lower() not in MODES:
        known = ", ".join(MODES)
        raise Refused("unknown_mode", f"mode {wish.mode!r} is none of {known}", "mode")
    found = await board(parts, caller, wish.leaderboard)
    check_problem(caller, found.slug)


async def accepted(parts: Parts, taken: Taken) -> Accepted:
    """What the client is told of a submission that was taken in (spec 5.3)."""
    receipt, queue = taken.receipt, await _queue(parts, taken.receipt.gpu)
    return {
        "details": {"id": receipt.number, "job_status_id": receipt.number},
        "runner_queue": queue_told(msgspec.convert(queue, Wait)) if queue else None,
        "status": "accepted",
        "queue": queue,
        "quota": _quota(taken),
    }


async def _queue(parts: Parts, gpu: str) -> dict[str, Any]:
    """The queue of a GPU type; {} if nobody says it at once, for it is in the log already."""
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            return await parts.asking.queue(gpu) or {}
    except (TimeoutError, Failed):
        return {}


def limits(receipt: Receipt) -> dict[str, str]:
    """What is left, and whether this was answered before, as headers."""
    told = {"Idempotent-Replayed": "true"} if receipt.is_replay else {}
    left = receipt.quota
    if left is None:
        return told
    reset_s = max(0, math.ceil((left.reset_at - now()).total_seconds()))
    return told | {
        "RateLimit-Limit": str(left.limit),
        "RateLimit-Remaining": str(left.remaining),
        "RateLimit-Reset": str(reset_s),
    }


def _quota(taken: Taken) -> QuotaLeft:
    left = taken.receipt.quota
    if left is None:
        return {}
    return {
        "mode": cast("PublicMode", taken.mode),
        "used": left.used,
        "remaining": left.remaining,
        "max": left.limit,
        "window_s": left.window_s,
        "reset_at": instant(left.reset_at),
        "concurrent": None,
        "concurrent_max": None,
    }
