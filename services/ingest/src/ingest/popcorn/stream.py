"""The client's event stream: a view on a durable job, in frames that the client can read.

It decodes chunk by chunk, so all is ASCII; it looks for one `event:` and one `data:` line, ended by
two line feeds. A stream that is lost changes nothing: the submission goes on.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from ingest.domain.callers import Caller
from ingest.popcorn.asking import Asking
from ingest.popcorn.parts import Parts
from ingest.popcorn.profiles import TRACE_BYTES_MAX, cases, profile_result
from ingest.popcorn.result_shapes import FullResult
from ingest.popcorn.results import full_result, report
from ingest.popcorn.seen import Shown
from ingest.popcorn.shapes import Streamed, StreamError, StreamResult
from ingest.popcorn.standing import standing
from ingest.popcorn.words import plain
from shared.blobs import Missing
from shared.errors import Failed, Refused

STATUS_S = 10.0
AGAIN_S = 0.5
# The client gives up after 3600 s; it is told before.
STREAM_S_MAX = 3500.0
WORDS = {"pending": "queued", "running": "running"}


def frame(event: str, data: Streamed) -> bytes:
    r"""One event as it is sent.

    >>> frame("status", {"message": "\u00e9\n"})
    b'event: status\ndata: {"message":"\\u00e9\\n"}\n\n'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"event: {event}\ndata: {text}\n\n".encode("ascii")


class Follower(NamedTuple):
    """Who follows a submission, where they find us, and when this process is to end."""

    caller: Caller
    base: str
    stopping: asyncio.Event


async def followed(parts: Parts, number: int, follower: Follower) -> AsyncGenerator[bytes, None]:
    """A submission until it is over, and what came of it; always ends in `result` or `error`."""
    try:
        async with aclosing(_followed(parts, number, follower)) as told:
            async for one in told:
                yield one
    except (Refused, Failed) as error:
        status, code = (404, error.code) if isinstance(error, Refused) else (503, "unavailable")
        yield frame("error", _error(plain(str(error)), status, code))


async def _followed(parts: Parts, number: int, follower: Follower) -> AsyncGenerator[bytes, None]:
    began = time.monotonic()
    seen: Shown | None = None
    ended = asyncio.create_task(follower.stopping.wait())
    yield _status(began, f"Submission {number} is accepted")
    try:
        while time.monotonic() - began < STREAM_S_MAX and not ended.done():
            after = -1 if seen is None else seen.version
            asked = asyncio.create_task(_asked(parts.asking, number, follower.caller, after))
            try:
                # However long the read side is away, the client hears of us.
                while not (await _first(asked, ended)):
                    yield _status(began, _told(number, seen))
                found = asked.result() if asked.done() else None
            finally:
                asked.cancel()
            if found is not None and found.is_over:
                yield await _ended(parts, found, follower.base)
                return
            seen = found or seen
            yield _status(began, _told(number, seen))
    finally:
        ended.cancel()
    what = f"submission {number} goes on: look at it later with submissions show {number}"
    yield frame("error", _error(what, 504, "stream_over"))


async def _first(*tasks: "asyncio.Task[Any]") -> bool:
    """Whether one of these is done within the time that the client may hear nothing."""
    done, _ = await asyncio.wait(tasks, timeout=STATUS_S, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _asked(asking: Asking, number: int, caller: Caller, after: int) -> Shown | None:
    """The submission, once there is news or it is time to say that there is none."""
    try:
        found = await asking.submission(number, caller.reader, after, 0 if after < 0 else STATUS_S)
    except Failed:
        found = None
    if found is None:
        await asyncio.sleep(AGAIN_S)
    return found


def _status(began: float, message: str) -> bytes:
    elapsed = round(time.monotonic() - began, 3)
    return frame("status", {"status": "processing", "elapsed_time": elapsed, "message": message})


def _told(number: int, seen: Shown | None) -> str:
    if seen is None:
        return f"Submission {number} is on its way"
    now = standing(seen)
    more = f": {now.more}" if now.more else ""
    return f"Submission {number} is {WORDS.get(now.status, now.status)} on {seen.gpu}{more}"


async def _ended(parts: Parts, seen: Shown, base: str) -> bytes:
    """The last event; what did not succeed is an error that the client prints."""
    now = standing(seen)
    if now.status != "succeeded":
        return frame("error", _error(now.error or now.status, 422, seen.code or now.status))
    result = await _profile(parts, seen, base) if seen.mode == "profile" else full_result(seen)
    said: StreamResult = {
        "status": "success",
        "submission_id": seen.number,
        "results": [result],
        "reports": [report(seen)],
    }
    return frame("result", said)


async def _profile(parts: Parts, seen: Shown, base: str) -> FullResult:
    """The result of a profile, with the files of as many cases as one answer may hold."""
    contents: dict[str, bytes] = {}
    links: dict[int, str] = {}
    left = TRACE_BYTES_MAX
    for index, files in cases(seen).items():
        size = sum(file.bytes for file in files)
        if size > left:
            links[index] = f"{base}/jobs/{seen.number}/artifacts/{index}"
            continue
        left -= size
        for file in files:
            try:
                contents[file.name] = await parts.blobs.get(file.digest)
            except Missing:
                contents[file.name] = b"this file is not kept any more\n"
    return profile_result(seen, contents, links)


def _error(detail: str, status: int, code: str) -> StreamError:
    return {"status": "error", "detail": detail, "status_code": status, "code": code}
