"""Stdin and stdout of the server: whole lines, open requests, and an end once they are answered."""

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Self

import msgspec

from shared.errors import Refused

LINE_BYTES_MAX = 8 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
WAITING_MAX = 64
# A client that closes stdin at once still gets answers that take no longer; a request to a platform
# far away, or to a busy one, may take seconds.
DRAIN_S = 10.0


class Params(msgspec.Struct, frozen=True):
    """The parameters of a request, as far as they name a tool."""

    name: str | None = None


class MessageHeader(msgspec.Struct, frozen=True):
    """The part of a message that tells whether it is a request, and which one."""

    id: int | str | None = None
    method: str | None = None
    params: Params | None = None


class StdioWire:
    """Takes over stdin and stdout: the SDK iterates it like a file of lines, and writes to it.

    Other code here gets an empty stdin, and stderr as stdout. At the end of stdin the iteration
    waits for open requests, except those of slow tools. Our own threads read and write, because a
    thread that waits for a silent client cannot be stopped; it is abandoned when the process ends.
    Raises Refused if stdin or stdout was closed from the start.
    """

    def __init__(self, slow_tools: Collection[str]) -> None:
        self._slow_tools = slow_tools
        self._loop = asyncio.get_running_loop()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self._outgoing: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue()
        self._open_requests: set[int | str] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        try:
            input_fd, output_fd = os.dup(0), os.dup(1)
            null_fd = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null_fd, 0)
            os.close(null_fd)
            os.dup2(2, 1)
        except OSError as error:
            reason = f"a client speaks on stdin and stdout, but one of them is closed: {error}"
            raise Refused("no_client", reason) from error
        for target, fd in ((self._read, input_fd), (self._write, output_fd)):
            threading.Thread(target=target, args=(fd,), daemon=True).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._incoming.get()
        if line is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._all_answered.wait()
            raise StopAsyncIteration
        header = _parse_header(line)
        name = header.params.name if header.params else None
        if header.id is not None and header.method is not None and name not in self._slow_tools:
            self._open_requests.add(header.id)
            self._all_answered.clear()
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        """Write a line. Raises BrokenPipeError when nobody reads any more."""
        line, written = text.encode(), self._loop.create_future()
        self._outgoing.put((line, written))
        await written
        header = _parse_header(line)
        if header.id is not None and header.method is None:
            self._open_requests.discard(header.id)
            if not self._open_requests:
                self._all_answered.set()

    async def flush(self) -> None:
        """Do nothing; lines are written at once."""

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

    def _write(self, fd: int) -> None:
        while True:
            line, written = self._outgoing.get()
            trouble: OSError | None = None
            try:
                remaining = memoryview(line)
                while remaining:
                    remaining = remaining[os.write(fd, remaining) :]
            except OSError as error:
                trouble = BrokenPipeError(error.errno, error.strerror)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_finish_write, written, trouble)


def _finish_write(written: "asyncio.Future[None]", trouble: OSError | None) -> None:
    if not written.done():
        written.set_result(None) if trouble is None else written.set_exception(trouble)


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


def _parse_header(line: bytes) -> MessageHeader:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=MessageHeader)
    return MessageHeader()
