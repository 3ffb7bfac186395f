"""Requests to JetStream: one answer decoded, and the patience to ask again through an outage."""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import Failed

ATTEMPT_S_MAX = 2.0
PAUSE_S = 0.05
PATIENCE_S_MAX = 30.0

MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_ON = "Nats-Expected-Last-Subject-Sequence-Subject"
SUBJECT = "Nats-Subject"
WRONG_LAST_SEQUENCE = 10071
WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164
NO_MESSAGE = 10037
NO_CONSUMER = 10014
NOT_DELETED = 10057
NO_SEQUENCE = 10043
NO_CLUSTER = 10074
NO_PEERS = 10005
STORE_FAILED = 10077

# 429 is too much at once, 5xx a server that starts, has no leader or no room.
PASSING_FROM = 429
# A server that was killed in the middle of an atomic batch knows only its end.
BATCH_TORN = frozenset({10175, 10176})
# While a cluster gathers, it has too few servers to place a stream on; that is a 400.
PASSES = BATCH_TORN | {NO_PEERS}
# That there is nothing to delete, or no cluster for replicas, is a 500, and stays so.
FINAL = frozenset({NOT_DELETED, NO_CLUSTER})

T = TypeVar("T")


class Passing(Exception):  # noqa: N818
    """The server could not do it now; asking again is the answer. `code` is JetStream's own."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code


class Denied(Exception):  # noqa: N818
    """The server understood and said no; `code` is JetStream's own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"JetStream said no ({code}): {reason}")
        self.code = code
        self.reason = reason


class Stored(NamedTuple):
    """A message as its stream keeps it; `at` is the server's time of it, where it was asked."""

    seq: int
    id: str
    data: bytes
    at: datetime | None = None
    subject: str = ""


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(NamedTuple):
    """Where a message lies; of a duplicate, where the first one with its id does."""

    seq: int
    is_duplicate: bool


class _Verdict(msgspec.Struct):
    error: _Error | None = None
    seq: int = 0
    duplicate: bool = False


class _Message(msgspec.Struct):
    subject: str
    seq: int
    time: datetime
    hdrs: str = ""
    data: str = ""


class _Found(msgspec.Struct):
    message: _Message


_verdict = msgspec.json.Decoder(_Verdict).decode
_found = msgspec.json.Decoder(_Found).decode


async def request(
    nc: Client, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> bytes:
    """The data of the answer to one message; as answer."""
    return (await answer(nc, subject, data, headers)).data


async def answer(
    nc: Client, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> Msg:
    """The answer to one message, within 2 s; errors: TimeoutError and the client's own.

    The client waits by `asyncio.wait_for`, which in Python 3.11 swallows a cancellation that
    comes together with the answer. Who was to stop would go on for ever.
    """
    task = asyncio.current_task()
    cancelled = task.cancelling() if task else 0
    found = await nc.request(subject, data, ATTEMPT_S_MAX, headers=headers)
    if task is not None and task.cancelling() > cancelled:
        raise asyncio.CancelledError
    return found


async def publish(nc: Client, subject: str, data: bytes, headers: dict[str, str]) -> int:
    """Publish to a stream once and return the sequence; errors: Denied, Passing."""
    return (await publish_checked(nc, subject, data, headers)).seq


async def publish_checked(nc: Client, subject: str, data: bytes, headers: dict[str, str]) -> Ack:
    """Publish to a stream once; errors: Denied, Passing."""
    answer = await request(nc, subject, data, headers)
    return Ack(check(answer), _verdict(answer).duplicate)


async def ask(nc: Client, what: str, body: object = None) -> bytes:
    """Ask the JetStream API once; errors: Denied, Passing."""
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await request(nc, f"$JS.API.{what}", data)
    check(answer)
    return answer


async def find(nc: Client, stream: str, which: dict[str, object]) -> Stored | None:
    """The message a stream's leader has, or None; errors as ask.

    Not a direct get: on a cluster any replica answers those, and one may lag behind.
    """
    try:
        answer = await ask(nc, f"STREAM.MSG.GET.{stream}", which)
    except Denied as denied:
        if denied.code == NO_MESSAGE:
            return None
        raise
    message = _found(answer).message
    data = base64.b64decode(message.data)
    return Stored(message.seq, _id_in(message.hdrs), data, message.time, message.subject)


def check(answer: bytes) -> int:
    """The sequence in an answer, if it has one; errors: Denied, Passing."""
    verdict = _verdict(answer)
    if verdict.error is None:
        return verdict.seq
    error = verdict.error
    is_passing = error.code >= PASSING_FROM and error.err_code not in FINAL
    if is_passing or error.err_code in PASSES:
        raise Passing(error.description, error.err_code)
    raise Denied(error.err_code, error.description)


async def patiently(
    nc: Client, attempt: Callable[[], Awaitable[T]], within_s: float = PATIENCE_S_MAX
) -> T:
    """What an attempt that is safe to repeat returns, once the server is there to answer it.

    Errors: Failed if it could not be reached in time, or said no; Denied codes that the
    attempt wants to see it must catch itself.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            return await _once(nc, attempt)
        except Denied as denied:
            raise Failed(str(denied)) from denied
        except (TimeoutError, Passing, nats.errors.Error) as error:
            if nc.is_closed:
                # Who tries again at once must let the loop turn, for it is to end the process.
                await asyncio.sleep(PAUSE_S)
                raise Failed("the connection to NATS is closed") from error
            if time.monotonic() > until:
                reason = str(error) or "no answer"
                raise Failed(f"NATS could not be reached in {within_s:g} s: {reason}") from error
        await asyncio.sleep(PAUSE_S)


async def _once(nc: Client, attempt: Callable[[], Awaitable[T]]) -> T:
    # While disconnected the client would keep each copy of what is tried and send them all later.
    if not nc.is_connected:
        raise Passing("not connected")
    return await attempt()


def _id_in(headers: str) -> str:
    for line in base64.b64decode(headers).decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name == MESSAGE_ID:
            return value.strip()
    return ""
