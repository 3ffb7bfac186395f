"""The lines from the client on stdin and to it on stdout, where nothing else may write.

Our own threads read and write, because a thread that waits for a silent client cannot be stopped;
it is abandoned when the process ends.
"""

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Self

import msgspec

from shared.errors import Refused

LINE_BYTES_MAX = 8 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
WAITING_MAX = 64
# A client that closes stdin at once still gets answers that take no longer.
DRAIN_S = 1.0


class Params(msgspec.Struct, frozen=True):
    """The parameters of a request, as far as they name a tool."""

    name: str | None = None


class MessageHeader(msgspec.Struct, frozen=True):
    """The part of a message that tells whether it is a request, and which one."""

    id: int | str | None = None
    method: str | None = None
    params: Params | None = None


def claim_stdio() -> tuple[int, int]:
    """Take over stdin and stdout; other code here gets an empty stdin, and stderr as stdout.

    Raises Refused if one of them was closed from the start.
    """
    try:
        lines_in, lines_out = os.dup(0), os.dup(1)
        null_fd = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null_fd, 0)
        os.close(null_fd)
        os.dup2(2, 1)
    except OSError as error:
        reason = f"a client speaks on stdin and stdout, but one of them is closed: {error}"
        raise Refused("no_client", reason) from error
    return lines_in, lines_out


class LineReader:
    """The incoming lines, iterated by the SDK like a file; the end waits for open requests."""

    def __init__(self, fd: int, requests: "OpenRequests") -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self._requests = requests
        threading.Thread(target=self._read, args=(fd,), daemon=True).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._incoming.get()
        if line is None:
            await self._requests.settled(DRAIN_S)
            raise StopAsyncIteration
        self._requests.came(line)
        return line.decode("utf-8", "replace")

    def _read(self, fd: int) -> None:
        for line in _read_lines(fd):
            self._hand_over(line)
        self._hand_over(None)

    def _hand_over(self, line: bytes | None) -> None:
        """Hand a line over once there is room; drop it if the loop has ended."""
        with suppress(RuntimeError, CancelledError):
            putting = self._incoming.put(line)
            try:
                asyncio.run_coroutine_threadsafe(putting, self._loop).result()
            finally:
                putting.close()


def _read_lines(fd: int) -> Iterator[bytes]:
    """Yield each line of a file; lines that are too long are skipped."""
    buffer, is_long = bytearray(), False
    while True:
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            break
        *complete, last = chunk.split(b"\n")
        for piece in complete:
            buffer += piece
            if not is_long and buffer.strip():
                yield bytes(buffer)
            buffer.clear()
            is_long = False
        buffer += last
        if len(buffer) > LINE_BYTES_MAX:
            sys.stderr.write(f"warpboard: a message over {LINE_BYTES_MAX:,} bytes was left out\n")
            buffer.clear()
            is_long = True
    if not is_long and buffer.strip():
        yield bytes(buffer)


class LineWriter:
    """The SDK's output; each line is written before the next begins."""

    def __init__(self, fd: int, requests: "OpenRequests") -> None:
        self._loop = asyncio.get_running_loop()
        self._outgoing: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue()
        self._requests = requests
        threading.Thread(target=self._write, args=(fd,), daemon=True).start()

    async def write(self, text: str) -> None:
        """Write a line. Raises BrokenPipeError when nobody reads any more."""
        line, written = text.encode(), self._loop.create_future()
        self._outgoing.put((line, written))
        await written
        self._requests.went(line)

    async def flush(self) -> None:
        """Do nothing; lines are written at once."""

    def _write(self, fd: int) -> None:
        while True:
            line, written = self._outgoing.get()
            trouble: OSError | None = None
            try:
                remaining = memoryview(line)
                while remaining:
                    remaining = remaining[os.write(fd, remaining) :]
            except OSError as error:
                trouble = error
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_finish_write, written, trouble)


def _finish_write(written: "asyncio.Future[None]", trouble: OSError | None) -> None:
    if written.done():
        return
    if trouble is None:
        written.set_result(None)
    else:
        written.set_exception(BrokenPipeError(trouble.errno, trouble.strerror))


class OpenRequests:
    """The requests that wait for their answers, except those of slow tools."""

    def __init__(self, slow: Collection[str] = ()) -> None:
        self._slow = slow
        self._open: set[int | str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def came(self, line: bytes) -> None:
        """Record a line from the client."""
        header = _parse_header(line)
        name = header.params.name if header.params else None
        if header.id is not None and header.method is not None and name not in self._slow:
            self._open.add(header.id)
            self._none.clear()

    def went(self, line: bytes) -> None:
        """Record a line to the client."""
        header = _parse_header(line)
        if header.id is not None and header.method is None:
            self._open.discard(header.id)
            if not self._open:
                self._none.set()

    async def settled(self, within_s: float) -> None:
        """Wait until all are answered, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._none.wait()


def _parse_header(line: bytes) -> MessageHeader:
    header: Any = None
    with suppress(msgspec.MsgspecError):
        header = msgspec.json.decode(line, type=MessageHeader)
    return header or MessageHeader()
