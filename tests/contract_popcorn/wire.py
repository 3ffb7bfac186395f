"""The public client's requests byte for byte, as its HTTP library puts them on the wire.

Recorded from the client itself: no User-Agent, small header names, a part without Content-Type, its
base address joined with a path without looking, `content-length: 0` before the other headers.
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
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, which every answer has."""
        return json.loads(self.body)


# Every whole answer with what was asked, for comparing them with the document at the end.
SEEN: deque[tuple[str, str, Answer]] = deque(maxlen=10_000)


@dataclass(frozen=True)
class Wire:
    """A client that opens a connection for each request; `base` may end in a slash."""

    base: str
    credential: str = ""

    @property
    def host(self) -> str:
        """Where it connects to."""
        return urlsplit(self.base).netloc

    def target(self, path: str) -> str:
        """A path as the client makes it: base and path, one behind the other."""
        return urlsplit(f"{self.base}{path}")._replace(scheme="", netloc="").geturl()

    def get(self, path: str) -> Answer:
        """A GET as the client sends it."""
        return self.exchange("GET", path, [*self._who, f"host: {self.host}"])

    def delete(self, path: str) -> Answer:
        """A DELETE, whose answer must have a body."""
        return self.exchange("DELETE", path, [*self._who, f"host: {self.host}"])

    def post_json(self, path: str, body: object) -> Answer:
        """A POST of JSON."""
        data = json.dumps(body, separators=(",", ":")).encode()
        lines = [*self._who, f"host: {self.host}", f"content-length: {len(data)}"]
        return self.exchange("POST", path, lines, data, "content-type: application/json")

    def post_nothing(self, path: str) -> Answer:
        """A POST that says it has no body, as start and stop do."""
        return self.exchange("POST", path, [*self._who, f"host: {self.host}"], b"", ZERO)

    def post_file(self, path: str, data: bytes, name: str = "submission.py", **more: str) -> Answer:
        """A POST of one file; `more` are headers that a client of ours adds."""
        with self.opened_file(path, data, name, **more) as stream:
            return stream.whole()

    def opened_file(self, path: str, data: bytes, name: str, **more: str) -> "Open":
        """The same, with the answer still to be read."""
        body = multipart(data, f'filename="{name}"')
        return self.opened("POST", path, [*_lines(more), *self._who], body)

    def opened(self, method: str, path: str, lines: list[str], body: bytes) -> "Open":
        """A multipart request, with its answer still to be read."""
        kind = f"content-type: multipart/form-data; boundary={BOUNDARY}"
        head = [kind, f"content-length: {len(body)}", ANYTHING, *lines, f"host: {self.host}"]
        return Open(self.host, _request(method, self.target(path), head) + body)

    def exchange(
        self, method: str, path: str, lines: list[str], body: bytes = b"", first: str = ""
    ) -> Answer:
        """One request and its whole answer."""
        head = [*([first] if first else []), ANYTHING, *lines]
        with Open(self.host, _request(method, self.target(path), head) + body) as stream:
            return stream.whole()

    @property
    def _who(self) -> list[str]:
        return [self.credential] if self.credential else []


ANYTHING = "accept: */*"
ZERO = "content-length: 0"


def cli_id(secret: str) -> str:
    """The header of a participant."""
    return f"x-popcorn-cli-id: {secret}"


def bearer(secret: str) -> str:
    """The header of an admin."""
    return f"authorization: Bearer {secret}"


def multipart(data: bytes, filename: str, **texts: str) -> bytes:
    """One part named file, without Content-Type, and texts."""
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
        """What the answer says."""
        return self._answer.status

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers, by small names."""
        return {name.lower(): value for name, value in self._answer.getheaders()}

    def whole(self) -> Answer:
        """All of the answer."""
        answer = Answer(self.status, self.headers, self._answer.read())
        method, _, target = self._asked.partition(" ")
        SEEN.append((method, target, answer))
        return answer

    def chunks(self, size: int) -> Iterator[bytes]:
        """The answer in pieces of an odd size, each decoded by itself as the client does."""
        while piece := self._answer.read1(size):
            yield piece


def events(pieces: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """The events of a stream, read the client's way: damaged characters would show."""
    buffer = ""
    for piece in pieces:
        buffer += piece.decode("utf-8", "replace")
        while "\n\n" in buffer:
            message, _, buffer = buffer.partition("\n\n")
            found = {"event": "", "data": ""}
            for line in message.split("\n"):
                for key in found:
                    if line.startswith(f"{key}:"):
                        found[key] = line[len(key) + 1 :].strip()
            if found["event"]:
                yield found["event"], json.loads(found["data"])


def _request(method: str, target: str, lines: list[str]) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()


def _lines(headers: dict[str, str]) -> list[str]:
    return [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
