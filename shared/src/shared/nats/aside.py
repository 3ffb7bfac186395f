"""The pump in a process of its own: reading a long log takes as long as folding it."""

import asyncio
import subprocess
import sys

import msgspec

from shared.errors import Failed
from shared.event_log import Gap, Recorded
from shared.nats.feed import Raw, recorded
from shared.nats.reader import LENGTH_BYTES, Asked, Frame

# While so much waits here, nothing is taken from the pipe, and the reader has to wait.
WAITING_BYTES_MAX = 16 * 1024 * 1024
END_S_MAX = 5.0


class AsideFeed:
    """Everything after a sequence, read by a child process that lives no longer than this one.

    It is started by `start`, or the first `take`; it ends with `close`, or with this process.
    """

    def __init__(
        self, url: str, name: str, after: int, waiting_bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._asked = Asked(url, name, after)
        self._seq = after
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe = _Pipe(waiting_bytes_max)

    @property
    def behind(self) -> int:
        """How many events are still to be taken, as the reader told with the newest of them."""
        return self._pipe.behind + len(self._pipe.events)

    async def start(self) -> None:
        """Have the reader begin; again is harmless."""
        if self._child is None:
            self._child = _launched(self._asked)
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: self._pipe, self._child.stdout)

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one; see the port.

        Errors: Gap, after all events before it; Failed, also if the reader was killed.
        """
        await self.start()
        while not self._pipe.events:
            if self._pipe.end is not None:
                raise self._pipe.end
            if self._pipe.is_over:
                raise Failed(self._obituary())
            await self._pipe.turn()
        # Nothing is awaited from here on, so that a cancelled take has taken nothing.
        taken = self._pipe.pop(most)
        self._seq = taken[-1][0]
        return recorded(taken)

    async def close(self) -> None:
        """End the reader, which holds nothing."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(END_S_MAX)
            assert self._child.stdin is not None, "its input is a pipe"
            self._child.stdin.close()
        self._pipe.close()

    def _obituary(self) -> str:
        assert self._child is not None, "it was started"
        code = self._child.wait(END_S_MAX)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the process that reads the log {how} after event {self._seq}: run it again"


class _Pipe(asyncio.Protocol):
    """What the reader hands on, as it comes."""

    def __init__(self, waiting_bytes_max: int) -> None:
        self.events: list[Raw] = []
        # Nobody has told yet; there is no reason to read where nothing is.
        self.behind = 1
        self.end: Exception | None = None
        self.is_over = False
        self._decode = msgspec.msgpack.Decoder(Frame).decode
        self._news = asyncio.Event()
        self._rest = bytearray()
        self._waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport), "a pipe to read"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        begin = 0
        while (body := begin + LENGTH_BYTES) <= len(self._rest):
            end = body + int.from_bytes(self._rest[begin:body])
            if end > len(self._rest):
                break
            with memoryview(self._rest) as rest:
                self._on(self._decode(rest[body:end]))
            begin = end
        del self._rest[:begin]
        if self._waiting_bytes >= self._waiting_bytes_max and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_over = True
        self._news.set()

    async def turn(self) -> None:
        """Wait for what comes next."""
        self._news.clear()
        await self._news.wait()

    def pop(self, most: int) -> list[Raw]:
        """The next events."""
        taken, self.events = self.events[:most], self.events[most:]
        self._waiting_bytes -= _bytes(taken)
        if self._waiting_bytes < self._waiting_bytes_max and self._transport is not None:
            self._transport.resume_reading()
        return taken

    def close(self) -> None:
        """Take nothing more."""
        if self._transport is not None:
            self._transport.close()

    def _on(self, frame: Frame) -> None:
        self.events += frame.events
        self.behind = frame.behind
        self._waiting_bytes += _bytes(frame.events)
        if frame.gap is not None:
            self.end = Gap(frame.gap)
        elif frame.failed is not None:
            self.end = Failed(frame.failed)
        self._news.set()


def _bytes(events: list[Raw]) -> int:
    return sum(len(body) for _, _, body in events)


def _launched(asked: Asked) -> "subprocess.Popen[bytes]":
    """A reader, in a session of its own, so that a Ctrl-C reaches us alone."""
    command = [sys.executable, "-P", "-m", "shared.nats.reader"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin is not None, "its input is a pipe"
    child.stdin.write(msgspec.json.encode(asked) + b"\n")
    child.stdin.flush()
    return child
