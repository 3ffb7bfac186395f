"""A reader of server-sent events over a real connection that can be cut at any byte."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class StreamListener:
    """The received events, notices and comments, and whether the stream ended."""

    places: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    notices: list[tuple[str, Any]] = field(default_factory=list)
    comments: int = 0
    is_end: bool = False
    retry_ms: int | None = None
    text: bytes = b""

    @property
    def last(self) -> int:
        """The sequence to resume from."""
        return self.places[-1] if self.places else 0

    def take(self, piece: bytes) -> None:
        """Parse a piece of the stream; an incomplete event waits for its rest."""
        *blocks, self.text = (self.text + piece).split(b"\n\n")
        for block in blocks:
            self._take(block.decode())

    def cut(self) -> None:
        """The connection is closed: drop an incomplete event."""
        self.text = b""

    def _take(self, block: str) -> None:
        fields = dict(line.partition(":")[::2] for line in block.split("\n"))
        lines = {name: value.strip() for name, value in fields.items()}
        if "retry" in lines:
            self.retry_ms = int(lines["retry"])
        elif "" in lines:
            self.comments += 1
        elif "id" in lines:
            data = json.loads(lines["data"])
            assert data.get("id", data.get("as_of")) == int(lines["id"])
            self.places.append(int(lines["id"]))
            self.types.append(lines["event"])
        elif lines["event"] == "end":
            self.is_end = True
        else:
            self.notices.append((lines["event"], json.loads(lines["data"])))


async def listen(
    http: httpx.AsyncClient, url: str, listener: StreamListener, bytes_max: int | None = None
) -> StreamListener:
    """Listen until the stream ends, or cut the connection after some bytes."""
    headers = {"Last-Event-ID": str(listener.last)} if listener.last else {}
    remaining = bytes_max
    async with http.stream("GET", url, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async for piece in response.aiter_raw():
            listener.take(piece if remaining is None else piece[:remaining])
            remaining = None if remaining is None else remaining - len(piece)
            if remaining is not None and remaining <= 0:
                break
    listener.cut()
    return listener
