"""The client's lines on stdin and ours on stdout, of which nothing else can write a byte.

Threads of our own read and write, for a thread that waits for a silent client cannot be stopped:
it is left behind when the process ends.
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
# Who pipes requests in and closes at once still gets the answers that come soon.
DRAIN_S = 1.0


class Params(msgspec.Struct, frozen=True):
    """Which tool a request calls, if it calls one."""

    name: str | None = None


class Frame(msgspec.Struct, frozen=True):
    """What of a message says whether it is a request, and which one."""

    id: int | str | None = None
    method: str | None = None
    params: Params | None = None


def claimed() -> tuple[int, int]:
    """The client's ends of stdin and stdout; whatever else here uses these has nothing and stderr.

    Errors: Refused where one of them was closed from the start.
    """
    try:
        lines_in, lines_out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
    except OSError as error:
        what = f"a client speaks on stdin and stdout, but one of them is closed: {error}"
        raise Refused("no_client", what) from error
    return lines_in, lines_out


class Lines:
    """The lines that come, as the SDK iterates over a file; the end waits for open requests."""

    def __init__(self, fd: int, requests: "Requests") -> None:
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self._requests = requests
        threading.Thread(target=self._read, args=(fd,), daemon=True).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._came.get()
        if line is None:
            await self._requests.settled(DRAIN_S)
            raise StopAsyncIteration
        self._requests.came(line)
        return line.decode("utf-8", "replace")

    def _read(self, fd: int) -> None:
        for line in _lines(fd):
            self._put(line)
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        """Hand a line over once there is room; nobody wants it when the loop has ended."""
        with suppress(RuntimeError, CancelledError):
            coming = self._came.put(line)
            try:
                asyncio.run_coroutine_threadsafe(coming, self._loop).result()
            finally:
                coming.close()


def _lines(fd: int) -> Iterator[bytes]:
    """Each line of a file that somebody else writes; one that is too long is left out."""
    rest, is_long = bytearray(), False
    while True:
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            break
        *whole, last = chunk.split(b"\n")
        for piece in whole:
            rest += piece
            if not is_long and rest.strip():
                yield bytes(rest)
            rest.clear()
            is_long = False
        rest += last
        if len(rest) > LINE_BYTES_MAX:
            sys.stderr.write(f"warpboard: a message over {LINE_BYTES_MAX:,} bytes was left out\n")
            rest.clear()
            is_long = True
    if not is_long and rest.strip():
        yield bytes(rest)


class Writer:
    """Where the SDK writes its lines; each is out before the next is begun."""

    def __init__(self, fd: int, requests: "Requests") -> None:
        self._loop = asyncio.get_running_loop()
        self._out: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue()
        self._requests = requests
        threading.Thread(target=self._write, args=(fd,), daemon=True).start()

    async def write(self, text: str) -> None:
        """Write a line. Errors: BrokenPipeError when nobody reads any more."""
        line, done = text.encode(), self._loop.create_future()
        self._out.put((line, done))
        await done
        self._requests.went(line)

    async def flush(self) -> None:
        """Nothing: a line that was written is out."""

    def _write(self, fd: int) -> None:
        while True:
            line, done = self._out.get()
            trouble: OSError | None = None
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(fd, left) :]
            except OSError as error:
                trouble = error
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_settle, done, trouble)


def _settle(done: "asyncio.Future[None]", trouble: OSError | None) -> None:
    if done.done():
        return
    if trouble is None:
        done.set_result(None)
    else:
        done.set_exception(BrokenPipeError(trouble.errno, trouble.strerror))


class Requests:
    """Which requests wait for their answers, but for tools that take long by their nature."""

    def __init__(self, slow: Collection[str] = ()) -> None:
        self._slow = slow
        self._open: set[int | str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def came(self, line: bytes) -> None:
        """A line of the client's."""
        frame = _frame(line)
        name = frame.params.name if frame.params else None
        if frame.id is not None and frame.method is not None and name not in self._slow:
            self._open.add(frame.id)
            self._none.clear()

    def went(self, line: bytes) -> None:
        """A line of ours."""
        frame = _frame(line)
        if frame.id is not None and frame.method is None:
            self._open.discard(frame.id)
            if not self._open:
                self._none.set()

    async def settled(self, within_s: float) -> None:
        """Until all are answered, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._none.wait()


def _frame(line: bytes) -> Frame:
    found: Any = None
    with suppress(msgspec.MsgspecError):
        found = msgspec.json.decode(line, type=Frame)
    return found or Frame()
