"""A feed read by a process of its own: reading a long log takes as long as folding it.

`python -m shared.nats.subprocess_feed` gets its request on the first line of its input, writes many
events at a time to its output, and ends with the input, which its parent holds open for as long as
it lives. It reads over a bare connection, which takes a fraction of the client's time.
"""

import asyncio
import base64
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import msgspec
from nats.aio.client import Client

from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.event_log import Gap, RecordedEvent
from shared.nats.connection import connect, retry_request
from shared.nats.feed import BehindTruncation, NatsFeed, decode_events
from shared.nats.pull import PullLimits, create_consumer, pending_count, stream_sequence
from shared.nats.segments import RawEvent
from shared.subjects import STREAM, aggregate

PULL_LIMITS = PullLimits()
CONNECT_S_MAX = 5.0
READ_BYTES = 256 * 1024


class BulkReadError(Exception):
    """The connection, or something received on it, is not as expected."""


class BulkReader:
    """All events in the stream after a sequence, in order, up to the end that the server reports.

    `address` is the server that the client is connected to with this login;
    `consumer` starts at the event after `after`; `inbox` is a private subject. `last` is the last
    event that was passed on.
    """

    def __init__(
        self, login: BusLogin, address: tuple[str, int], consumer: str, inbox: str, after: int
    ) -> None:
        self.last = self._parsed = after
        self.behind = 1
        self._login = login
        self._address = address
        self._next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
        self._inbox = inbox
        self._requested = 0
        self._unparsed = b""
        self._socket: socket.socket | None = None

    def read(self, handle_events: Callable[[list[RawEvent], int], None]) -> None:
        """Pass on lists of events, and how many follow, until the end or an error."""
        try:
            self._socket = self._connect()
            with self._socket as connection:
                self._request_more(connection)
                while data := connection.recv(READ_BYTES):
                    events = self._parse(connection, self._unparsed + data)
                    if events:
                        handle_events(events, self.behind)
                        self.last = self._parsed
                    if not self.behind:
                        return
                    self._request_more(connection)
        except (OSError, BulkReadError, Failed):
            return

    def stop(self) -> None:
        """Make `read` return soon; callable from any thread."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> socket.socket:
        """Open a connection and log in. Errors: OSError; BulkReadError; Failed."""
        connection = socket.create_connection(self._address, CONNECT_S_MAX)
        connection.settimeout(2 * PULL_LIMITS.heartbeat_s)
        info = b""
        while not info.endswith(b"\r\n"):
            data = connection.recv(READ_BYTES)
            info += data
            if not data:
                raise BulkReadError("the server closed the connection")
        server_info = msgspec.json.decode(info.partition(b" ")[2])
        if server_info.get("tls_required"):
            connection = self._login.tls().wrap_socket(connection, server_hostname=self._address[0])
        options = {
            "verbose": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
            **self._log_in(server_info.get("nonce", "")),
        }
        body = msgspec.json.encode(options)
        connection.sendall(b"CONNECT %b\r\nSUB %b 1\r\n" % (body, self._inbox.encode()))
        return connection

    def _log_in(self, nonce: str) -> dict[str, str]:
        """Return what a server wants to see: credentials, or what its URL has."""
        credentials = self._login.read_credentials()
        if credentials is not None:
            signature = base64.b64encode(credentials.key.sign(nonce.encode())).decode()
            return {"jwt": credentials.jwt, "sig": signature}
        account = urlsplit(self._login.url.partition(",")[0])
        if account.username and account.password:
            return {"user": unquote(account.username), "pass": unquote(account.password)}
        return {}

    def _request_more(self, connection: socket.socket) -> None:
        """Request ahead, so that the server never waits for us."""
        body = PULL_LIMITS.next_request
        head = f"PUB {self._next_subject} {self._inbox} {len(body)}\r\n".encode()
        while self._requested + PULL_LIMITS.batch <= PULL_LIMITS.waiting_max:
            self._requested += PULL_LIMITS.batch
            connection.sendall(head + body + b"\r\n")

    def _parse(self, connection: socket.socket, data: bytes) -> list[RawEvent]:
        """Parse the events; an incomplete one is kept for the next call."""
        events: list[RawEvent] = []
        position, reply = 0, ""
        while (end := data.find(b"\r\n", position)) >= 0:
            words = data[position:end].split(b" ")
            if words[0] not in (b"HMSG", b"MSG"):
                if words[0] == b"PING":
                    connection.sendall(b"PONG\r\n")
                elif words[0] == b"-ERR":
                    raise BulkReadError("the server reports an error")
                position = end + 2
                continue
            body_start, body_end = end + 2, end + 2 + int(words[-1])
            if body_end + 2 > len(data):
                break
            head_bytes = int(words[-2]) if words[0] == b"HMSG" else 0
            if len(words) == (6 if words[0] == b"HMSG" else 5):
                reply = words[3].decode()
                events.append(
                    self._check_event(words[1], reply, data[body_start + head_bytes : body_end])
                )
            else:
                # While there are events the server sends nothing else, not even heartbeats.
                raise BulkReadError("the server sent a status instead of an event")
            position = body_end + 2
        self._unparsed = data[position:]
        if reply:
            self.behind = pending_count(reply)
        return events

    def _check_event(self, subject: bytes, reply: str, body: bytes) -> RawEvent:
        seq = stream_sequence(reply)
        if seq != self._parsed + 1:
            raise BulkReadError(f"after event {self._parsed} came {seq}")
        self._parsed = seq
        self._requested -= 1
        return seq, aggregate(subject.decode()), body


# How many events, of 64 MiB at most, go through the pipe at once.
EVENTS_MAX = 250
LENGTH_BYTES = 4
PORT = 4222
INPUT, OUTPUT = 0, 1


class ReadRequest(msgspec.Struct):
    """What to read: the log, after a sequence, with a connection of this login and name."""

    login: BusLogin
    name: str
    after: int


class EventsFrame(msgspec.Struct, array_like=True):
    """The next events and how many follow them, or why there are no more."""

    events: list[RawEvent] = []
    behind: int = 0
    gap: str | None = None
    failed: str | None = None


def main() -> None:
    """Read until the input ends."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=ReadRequest)
    with suppress(BrokenPipeError, asyncio.CancelledError):
        asyncio.run(_run(request))


async def _run(request: ReadRequest) -> None:
    reading = asyncio.create_task(_read(request))
    # More input means its end: the parent is gone, for whatever reason.
    asyncio.get_running_loop().add_reader(INPUT, reading.cancel)
    try:
        await reading
    except Gap as gap:
        _write_frame(EventsFrame(gap=str(gap)))
    except Failed as failed:
        _write_frame(EventsFrame(failed=str(failed)))


async def _read(request: ReadRequest) -> None:
    nc = await connect(request.login, request.name)
    feed = NatsFeed(nc, await _read_in_bulk(nc, request))
    while True:
        events = await feed.raw(EVENTS_MAX)
        # A full pipe blocks us, but the connection to the server must be served meanwhile.
        await asyncio.to_thread(_write_frame, EventsFrame(events, feed.behind))


async def _read_in_bulk(nc: Client, request: ReadRequest) -> int:
    """Pass on the current log and return the last sequence. Errors: Gap; Failed."""
    feed = NatsFeed(nc, request.after)
    try:
        settings = await retry_request(nc, feed.settings)
    except BehindTruncation:
        # Most of the time goes into segments, which are read over the client.
        return request.after
    server = nc.connected_url
    if not feed.behind or server is None:
        return request.after
    consumer = await retry_request(nc, lambda: create_consumer(nc, STREAM, settings))
    address = server.hostname or "", server.port or PORT
    bulk = BulkReader(request.login, address, consumer, nc.new_inbox(), request.after)
    try:
        await asyncio.to_thread(bulk.read, _write_events)
    finally:
        bulk.stop()
    return bulk.last


def _write_events(events: list[RawEvent], behind: int) -> None:
    for start in range(0, len(events), EVENTS_MAX):
        chunk = events[start : start + EVENTS_MAX]
        _write_frame(EventsFrame(chunk, behind + len(events) - start - len(chunk)))


def _write_frame(frame: EventsFrame) -> None:
    body = msgspec.msgpack.encode(frame)
    unwritten = memoryview(len(body).to_bytes(LENGTH_BYTES) + body)
    while unwritten:
        unwritten = unwritten[os.write(OUTPUT, unwritten) :]


# With this much in memory nothing is read from the pipe, so that the child has to wait.
WAITING_BYTES_MAX = 16 * 1024 * 1024
END_S_MAX = 5.0


class SubprocessFeed:
    """All events after a sequence, read by a child process that ends with this one.

    `start` or the first `take` starts it; it ends with `close`, or with this process.
    """

    def __init__(
        self, login: BusLogin, name: str, after: int, waiting_bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._request = ReadRequest(login, name, after)
        self._seq = after
        self._child: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.ReadTransport | None = None
        # Twice this limit may wait in memory.
        self._reader = asyncio.StreamReader(waiting_bytes_max // 2)
        self._decode = msgspec.msgpack.Decoder(EventsFrame).decode
        self._frame_bytes = 0
        self._events: list[RawEvent] = []
        # Unknown until the first frame; a feed is opened because there is something to read.
        self._unsent = 1

    @property
    def behind(self) -> int:
        """How many events are not yet taken, as the reader reported with the newest of them."""
        return self._unsent + len(self._events)

    async def start(self) -> None:
        """Start the reader; safe to repeat."""
        if self._child is None:
            self._child = _start_reader(self._request)
            self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(self._reader), self._child.stdout
            )

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one; see the port.

        Errors: Gap, after all events before it; Failed, also if the reader was killed.
        """
        await self.start()
        while not self._events:
            await self._read_frame()
        # There is no await after this, so that a cancelled take has taken nothing.
        taken, self._events = self._events[:most], self._events[most:]
        self._seq = taken[-1][0]
        return decode_events(taken)

    async def _read_frame(self) -> None:
        """Read the next frame; if it is cancelled, the next call continues."""
        try:
            if not self._frame_bytes:
                self._frame_bytes = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
            frame = self._decode(await self._reader.readexactly(self._frame_bytes))
        except asyncio.IncompleteReadError as error:
            assert self._child is not None, "it was started"
            code = self._child.wait(END_S_MAX)
            end = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            reason = f"the process that reads the log {end} after event {self._seq}: run it again"
            raise Failed(reason) from error
        self._frame_bytes = 0
        if frame.gap is not None:
            raise Gap(frame.gap)
        if frame.failed is not None:
            raise Failed(frame.failed)
        self._events, self._unsent = frame.events, frame.behind

    async def close(self) -> None:
        """Stop the reader."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(END_S_MAX)
            assert self._child.stdin is not None, "its input is a pipe"
            self._child.stdin.close()
        if self._transport is not None:
            self._transport.close()


def _start_reader(request: ReadRequest) -> "subprocess.Popen[bytes]":
    """Start a reader in its own session, so that a Ctrl-C reaches only us."""
    command = [sys.executable, "-P", "-m", "shared.nats.subprocess_feed"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin is not None, "its input is a pipe"
    child.stdin.write(msgspec.json.encode(request) + b"\n")
    child.stdin.flush()
    return child


if __name__ == "__main__":
    main()
