"""Reads what lies in the stream by a bare connection, which takes a fraction of the client's time.

Nothing here waits for new events or mends anything: at the end of the log, and at whatever is not
as it should be, it stops, and whoever called goes on with the client from the event it came to.
"""

import socket
from collections.abc import Callable, Iterator
from urllib.parse import unquote, urlsplit

import msgspec

from shared.nats.feed import Raw
from shared.nats.pull import EXPIRES_HEARTBEATS, Pace, held_back, stream_sequence
from shared.nats.streams import SECOND_NS
from shared.subjects import STREAM, aggregate

PACE = Pace()
CONNECT_S_MAX = 5.0
READ_BYTES = 256 * 1024


class Broken(Exception):  # noqa: N818
    """The connection, or what came on it, is not as it should be."""


class BulkReader:
    """Everything in the stream after a sequence, in order, up to the end that the server names.

    `url` has the user and the password, `address` is the server that the client is connected to;
    `consumer` reads from the event after `after`; `inbox` is a subject of one's own.
    """

    def __init__(
        self, url: str, address: tuple[str, int], consumer: str, inbox: str, after: int
    ) -> None:
        self.last = after
        self.behind = 1
        self._account = urlsplit(url.partition(",")[0])
        self._address = address
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"
        self._inbox = inbox
        self._asked = 0
        self._socket: socket.socket | None = None

    def read(self, hand_on: Callable[[list[Raw], int], None]) -> None:
        """Hand on lists of events, and how many follow, until the end or until it is broken."""
        try:
            self._socket = self._connect()
            with self._socket:
                self._ask()
                for data in self._pieces():
                    events = self._parse(data)
                    if events:
                        hand_on(events, self.behind)
                    if not self.behind:
                        return
                    self._ask()
        except (OSError, Broken):
            return

    def stop(self) -> None:
        """Let `read` return soon, from any thread."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _connect(self) -> socket.socket:
        """A connection that has introduced itself. Errors: OSError; Broken, where it needs TLS."""
        connection = socket.create_connection(self._address, CONNECT_S_MAX)
        connection.settimeout(2 * PACE.heartbeat_s)
        info = b""
        while not info.endswith(b"\r\n"):
            piece = connection.recv(READ_BYTES)
            info += piece
            if not piece:
                raise Broken("the server closed the connection")
        told = msgspec.json.decode(info.partition(b" ")[2])
        if told.get("tls_required"):
            raise Broken("the server asks for TLS")
        connection.sendall(b"CONNECT %b\r\nSUB %b 1\r\n" % (self._greeting(), self._inbox.encode()))
        return connection

    def _greeting(self) -> bytes:
        said: dict[str, object] = {
            "verbose": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        user, password = self._account.username, self._account.password
        if user and password:
            said |= {"user": unquote(user), "pass": unquote(password)}
        elif user:
            said["auth_token"] = unquote(user)
        return msgspec.json.encode(said)

    def _ask(self) -> None:
        """Ask ahead, so that the server never waits for us."""
        body = msgspec.json.encode(
            {
                "batch": PACE.batch,
                "expires": int(EXPIRES_HEARTBEATS * PACE.heartbeat_s * SECOND_NS),
                "idle_heartbeat": int(PACE.heartbeat_s * SECOND_NS),
            }
        )
        message = f"PUB {self._next} {self._inbox} {len(body)}\r\n".encode() + body + b"\r\n"
        while self._asked + PACE.batch <= PACE.waiting_max:
            self._asked += PACE.batch
            self._send(message)

    def _send(self, data: bytes) -> None:
        assert self._socket is not None, "it is connected"
        self._socket.sendall(data)

    def _pieces(self) -> Iterator[bytes]:
        """What comes, each piece beginning with a message; `_parse` says how far it went."""
        assert self._socket is not None, "it is connected"
        self._rest = b""
        while piece := self._socket.recv(READ_BYTES):
            yield self._rest + piece

    def _parse(self, data: bytes) -> list[Raw]:
        """The events in a piece; what is not whole yet is kept for the next."""
        events: list[Raw] = []
        at, reply = 0, ""
        while (end := data.find(b"\r\n", at)) >= 0:
            words = data[at:end].split(b" ")
            if words[0] not in (b"HMSG", b"MSG"):
                self._on_line(words[0])
                at = end + 2
                continue
            body, after = end + 2, end + 2 + int(words[-1])
            if after + 2 > len(data):
                break
            head_bytes = int(words[-2]) if words[0] == b"HMSG" else 0
            if len(words) == (6 if words[0] == b"HMSG" else 5):
                reply = words[3].decode()
                events.append(self._event(words[1], reply, data[body + head_bytes : after]))
            else:
                # While there are events it has nothing else to say, not even that it lives.
                raise Broken("the server sends a status instead of an event")
            at = after + 2
        self._rest = data[at:]
        if reply:
            self.behind = held_back(reply)
        return events

    def _event(self, subject: bytes, reply: str, body: bytes) -> Raw:
        seq = stream_sequence(reply)
        if seq != self.last + 1:
            raise Broken(f"after event {self.last} came {seq}")
        self.last = seq
        self._asked -= 1
        return seq, aggregate(subject.decode()), body

    def _on_line(self, word: bytes) -> None:
        if word == b"PING":
            self._send(b"PONG\r\n")
        elif word == b"-ERR":
            raise Broken("the server refuses")
