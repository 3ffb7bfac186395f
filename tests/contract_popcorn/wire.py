"""The public client's requests byte for byte, as its HTTP library sends them.

Recorded from the client itself: no User-Agent, lower-case header names, a part without Content-
Type, its base URL joined with a path unchecked, `content-length: 0` before the other headers.
"""

import http.client
import json
import socket
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

BOUNDARY = "e31b4c5aed45d3f0-3ede991f45da5e99-2e783453f642958b-b5d976a217c1c558"
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


# Every response with its request, to check against the document at the end.
SEEN: deque[tuple[str, str, Answer]] = deque(maxlen=10_000)


@dataclass(frozen=True)
class Wire:
    """A client that opens a connection for each request; `base` may end in a slash."""

    base: str
    credential: str = ""

    @property
    def host(self) -> str:
        """Return the host to connect to."""
        return urlsplit(self.base).netloc

    def target(self, path: str) -> str:
        """Return a path as the client builds it: base and path joined."""
        return urlsplit(f"{self.base}{path}")._replace(scheme="", netloc="").geturl()

    def get(self, path: str) -> Answer:
        """Send a GET."""
        return self.exchange("GET", path, [*self._who, f"host: {self.host}"])

    def delete(self, path: str) -> Answer:
        """Send a DELETE; its response must have a body."""
        return self.exchange("DELETE", path, [*self._who, f"host: {self.host}"])

    def post_json(self, path: str, body: object) -> Answer:
        """Send a POST with JSON."""
        data = json.dumps(body, separators=(",", ":")).encode()
        lines = [*self._who, f"host: {self.host}", f"content-length: {len(data)}"]
        return self.exchange("POST", path, lines, data, "content-type: application/json")

    def post_nothing(self, path: str) -> Answer:
        """Send a POST without a body, as start and stop do."""
        return self.exchange("POST", path, [*self._who, f"host: {self.host}"], b"", ZERO)

    def post_file(self, path: str, data: bytes, name: str = "submission.py", **more: str) -> Answer:
        """Send a POST with one file; `more` are headers that our own clients add."""
        with self.opened_file(path, data, name, **more) as stream:
            return stream.whole()

    def opened_file(self, path: str, data: bytes, name: str, **more: str) -> "Open":
        """Send the same and leave the response unread."""
        body = multipart(data, f'filename="{name}"')
        return self.opened("POST", path, [*_lines(more), *self._who], body)

    def opened(self, method: str, path: str, lines: list[str], body: bytes) -> "Open":
        """Send a multipart request and leave its response unread."""
        kind = f"content-type: multipart/form-data; boundary={BOUNDARY}"
        head = [kind, f"content-length: {len(body)}", ANYTHING, *lines, f"host: {self.host}"]
        return Open(self.host, _request(method, self.target(path), head) + body)

    def exchange(
        self, method: str, path: str, lines: list[str], body: bytes = b"", first: str = ""
    ) -> Answer:
        """Send a request and read its whole response."""
        head = [*([first] if first else []), ANYTHING, *lines]
        with Open(self.host, _request(method, self.target(path), head) + body) as stream:
            return stream.whole()

    @property
    def _who(self) -> list[str]:
        return [self.credential] if self.credential else []


ANYTHING = "accept: */*"
ZERO = "content-length: 0"


def cli_id(secret: str) -> str:
    """Return the header of a participant."""
    return f"x-popcorn-cli-id: {secret}"


def bearer(secret: str) -> str:
    """Return the header of an admin."""
    return f"authorization: Bearer {secret}"


def multipart(data: bytes, filename: str, **texts: str) -> bytes:
    """Return one part named file, without Content-Type, and text fields."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; {filename}\r\n\r\n'
    parts = head.encode() + data + b"\r\n"
    for name, text in texts.items():
        parts += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
        parts += text.encode() + b"\r\n"
    return parts + f"--{BOUNDARY}--\r\n".encode()


class Open:
    """A connection on which one request was sent."""

    def __init__(self, host: str, request: bytes) -> None:
        name, _, port = host.rpartition(":")
        self._asked = request.partition(b" HTTP/1.1")[0].decode()
        self._socket = socket.create_connection((name, int(port)), PATIENCE_S)
        self._socket.sendall(request)
        self._answer = http.client.HTTPResponse(self._socket)

    def __enter__(self) -> Self:
        self._answer.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._socket.close()

    @property
    def status(self) -> int:
        """Return the status."""
        return self._answer.status

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers, with lower-case names."""
        return {name.lower(): value for name, value in self._answer.getheaders()}

    def whole(self) -> Answer:
        """Read the whole response."""
        answer = Answer(self.status, self.headers, self._answer.read())
        method, _, target = self._asked.partition(" ")
        SEEN.append((method, target, answer))
        return answer

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the body in pieces of an odd size, each decoded separately as the client does."""
        while piece := self._answer.read1(size):
            yield piece


def events(pieces: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream, parsed like the client does: damaged characters would show."""
    buffer = ""
    for piece in pieces:
        buffer += piece.decode("utf-8", "replace")
        while "\n\n" in buffer:
            message, _, buffer = buffer.partition("\n\n")
            fields = {"event": "", "data": ""}
            for line in message.split("\n"):
                for key in fields:
                    if line.startswith(f"{key}:"):
                        fields[key] = line[len(key) + 1 :].strip()
            if fields["event"]:
                yield fields["event"], json.loads(fields["data"])


def _request(method: str, target: str, lines: list[str]) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()


def _lines(headers: dict[str, str]) -> list[str]:
    return [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
