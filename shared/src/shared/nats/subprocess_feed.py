"""A feed read by a process of its own: reading a long log takes as long as folding it.

`python -m shared.nats.subprocess_feed` gets its request on the first line of its input, writes many
events at a time to its output, and ends with the input, which its parent holds open for as long as
it lives. It reads over a bare connection, which takes a fraction of the client's time.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import Gap, RecordedEvent
from shared.nats.connection import connect, retry_request
from shared.nats.feed import NatsFeed, RawEvent, decode_events
from shared.nats.pull import PullLimits, create_consumer, pending_count, stream_sequence
from shared.subjects import STREAM, aggregate

PACE = PullLimits()
CONNECT_S_MAX = 5.0
READ_BYTES = 256 * 1024


class BulkReadError(Exception):
    """The connection, or something received on it, is not as expected."""


class BulkReader:
    """All events in the stream after a sequence, in order, up to the end that the server reports.

    `url` contains user and password, `address` is the server that the client is connected to;
    `consumer` starts at the event after `after`; `inbox` is a private subject. `last` is the last
    event that was passed on.
    """

    def __init__(
        self, url: str, address: tuple[str, int], consumer: str, inbox: str, after: int
    ) -> None:
        self.last = self._parsed = after
        self.behind = 1
        self._account = urlsplit(url.partition(",")[0])
        self._address = address
        self._next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
        self._inbox = inbox
        self._requested = 0
        self._socket: socket.socket | None = None

    def read(self, handle_events: Callable[[list[RawEvent], int], None]) -> None:
        """Pass on lists of events, and how many follow, until the end or an error."""
        try:
            self._socket = self._connect()
            with self._socket:
                self._request_more()
                for data in self._receive():
                    events = self._parse(data)
                    if events:
                        handle_events(events, self.behind)
                        self.last = self._parsed
                    if not self.behind:
                        return
                    self._request_more()
        except (OSError, BulkReadError):
            return

    def stop(self) -> None:
        """Make `read` return soon; callable from any thread."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _connect(self) -> socket.socket:
        """Open a connection and log in. Errors: OSError; BulkReadError if the server needs TLS."""
        connection = socket.create_connection(self._address, CONNECT_S_MAX)
        connection.settimeout(2 * PACE.heartbeat_s)
        info = b""
        while not info.endswith(b"\r\n"):
            data = connection.recv(READ_BYTES)
            info += data
            if not data:
                raise BulkReadError("the server closed the connection")
        server_info = msgspec.json.decode(info.partition(b" ")[2])
        if server_info.get("tls_required"):
            raise BulkReadError("the server requires TLS")
        options = self._connect_options()
        connection.sendall(b"CONNECT %b\r\nSUB %b 1\r\n" % (options, self._inbox.encode()))
        return connection

    def _connect_options(self) -> bytes:
        options: dict[str, object] = {
            "verbose": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        user, password = self._account.username, self._account.password
        if user and password:
            options |= {"user": unquote(user), "pass": unquote(password)}
        elif user:
            options["auth_token"] = unquote(user)
        return msgspec.json.encode(options)

    def _request_more(self) -> None:
        """Request ahead, so that the server never waits for us."""
        body = PACE.next_request
        head = f"PUB {self._next_subject} {self._inbox} {len(body)}\r\n".encode()
        while self._requested + PACE.batch <= PACE.waiting_max:
            self._requested += PACE.batch
            self._send(head + body + b"\r\n")

    def _send(self, data: bytes) -> None:
        assert self._socket is not None, "it is connected"
        self._socket.sendall(data)

    def _receive(self) -> Iterator[bytes]:
        """Yield received data, each item starting at a message; `_parse` keeps the rest."""
        assert self._socket is not None, "it is connected"
        self._unparsed = b""
        while data := self._socket.recv(READ_BYTES):
            yield self._unparsed + data

    def _parse(self, data: bytes) -> list[RawEvent]:
        """Parse the events; an incomplete one is kept for the next call."""
        events: list[RawEvent] = []
        position, reply = 0, ""
        while (end := data.find(b"\r\n", position)) >= 0:
            words = data[position:end].split(b" ")
            if words[0] not in (b"HMSG", b"MSG"):
                if words[0] == b"PING":
                    self._send(b"PONG\r\n")
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
    """What to read: the log at a URL, after a sequence, with a connection of this name."""

    url: str
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
    nc = await connect(request.url, request.name)
    feed = NatsFeed(nc, await _read_in_bulk(nc, request))
    while True:
        events = await feed.raw(EVENTS_MAX)
        # A full pipe blocks us, but the connection to the server must be served meanwhile.
        await asyncio.to_thread(_write_frame, EventsFrame(events, feed.behind))


async def _read_in_bulk(nc: Client, request: ReadRequest) -> int:
    """Pass on the current log and return the last sequence. Errors: Gap; Failed."""
    feed = NatsFeed(nc, request.after)
    settings = await retry_request(nc, feed.settings)
    server = nc.connected_url
    if not feed.behind or server is None:
        return request.after
    consumer = await retry_request(nc, lambda: create_consumer(nc, STREAM, settings))
    address = server.hostname or "", server.port or PORT
    bulk = BulkReader(request.url, address, consumer, nc.new_inbox(), request.after)
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


# With this much in memory nothing is read from the pipe, so that the reader has to wait.
WAITING_BYTES_MAX = 16 * 1024 * 1024
END_S_MAX = 5.0


class SubprocessFeed:
    """All events after a sequence, read by a child process that ends with this one.

    `start` or the first `take` starts it; it ends with `close`, or with this process.
    """

    def __init__(
        self, url: str, name: str, after: int, waiting_bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._request = ReadRequest(url, name, after)
        self._seq = after
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe = _Pipe(waiting_bytes_max)

    @property
    def behind(self) -> int:
        """How many events are not yet taken, as the reader reported with the newest of them."""
        return self._pipe.behind + len(self._pipe.events)

    async def start(self) -> None:
        """Start the reader; safe to repeat."""
        if self._child is None:
            self._child = _start_reader(self._request)
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: self._pipe, self._child.stdout)

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one; see the port.

        Errors: Gap, after all events before it; Failed, also if the reader was killed.
        """
        await self.start()
        while not self._pipe.events:
            if self._pipe.end is not None:
                raise self._pipe.end
            if self._pipe.is_over:
                raise Failed(self._describe_exit())
            await self._pipe.wait()
        # There is no await after this, so that a cancelled take has taken nothing.
        taken = self._pipe.pop(most)
        self._seq = taken[-1][0]
        return decode_events(taken)

    async def close(self) -> None:
        """Stop the reader."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(END_S_MAX)
            assert self._child.stdin is not None, "its input is a pipe"
            self._child.stdin.close()
        self._pipe.close()

    def _describe_exit(self) -> str:
        assert self._child is not None, "it was started"
        code = self._child.wait(END_S_MAX)
        exit_text = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the process that reads the log {exit_text} after event {self._seq}: run it again"


class _Pipe(asyncio.Protocol):
    """Receives what the reader writes."""

    def __init__(self, waiting_bytes_max: int) -> None:
        self.events: list[RawEvent] = []
        # Unknown until the first frame; a feed is opened because there is something to read.
        self.behind = 1
        self.end: Exception | None = None
        self.is_over = False
        self._decode = msgspec.msgpack.Decoder(EventsFrame).decode
        self._arrived = asyncio.Event()
        self._unparsed = bytearray()
        self._waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport), "a pipe to read"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        begin = 0
        while (body := begin + LENGTH_BYTES) <= len(self._unparsed):
            end = body + int.from_bytes(self._unparsed[begin:body])
            if end > len(self._unparsed):
                break
            with memoryview(self._unparsed) as view:
                self._handle_frame(self._decode(view[body:end]))
            begin = end
        del self._unparsed[:begin]
        if self._waiting_bytes >= self._waiting_bytes_max and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_over = True
        self._arrived.set()

    async def wait(self) -> None:
        """Wait for the next data."""
        self._arrived.clear()
        await self._arrived.wait()

    def pop(self, most: int) -> list[RawEvent]:
        """Take the next events."""
        taken, self.events = self.events[:most], self.events[most:]
        self._waiting_bytes -= _bodies_bytes(taken)
        if self._waiting_bytes < self._waiting_bytes_max and self._transport is not None:
            self._transport.resume_reading()
        return taken

    def close(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()

    def _handle_frame(self, frame: EventsFrame) -> None:
        self.events += frame.events
        self.behind = frame.behind
        self._waiting_bytes += _bodies_bytes(frame.events)
        if frame.gap is not None:
            self.end = Gap(frame.gap)
        elif frame.failed is not None:
            self.end = Failed(frame.failed)
        self._arrived.set()


def _bodies_bytes(events: list[RawEvent]) -> int:
    return sum(len(body) for _, _, body in events)


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
