"""Live responses over real connections: slow readers, gone readers, the end of the process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import pytest
from fastapi import FastAPI, Response

from shared.http import LiveResponse
from tests.support.serving import serve_app
from tests.support.waits import eventually

PIECE = b"x" * 65536
SLOW_S_MAX = 0.3
# What kernels and servers keep for a connection, with room to spare.
BYTES_MAX = 32 * 1024 * 1024


@dataclass
class Source:
    """Chunks without end, and what became of them."""

    made: int = 0
    is_closed: bool = False
    pause_s: float = 0.0

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield chunk after chunk."""
        try:
            while True:
                await asyncio.sleep(self.pause_s)
                self.made += 1
                yield PIECE
        finally:
            self.is_closed = True


@dataclass
class Behind:
    """A server of one live response."""

    source: Source
    url: str
    stopping: asyncio.Event

    async def ask(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection that has sent a request, and has read nothing yet."""
        port = int(self.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        return reader, writer


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    app, source = FastAPI(), Source()

    @app.get("/live")
    async def live() -> Response:
        return LiveResponse(source.pieces(), 200, {"Content-Type": "text/plain"}, SLOW_S_MAX)

    async with serve_app(app) as (url, stopping):
        yield Behind(source, url, stopping)


async def test_a_reader_who_takes_nothing_is_let_go_and_costs_little(behind: Behind) -> None:
    _, writer = await behind.ask()
    await eventually(lambda: behind.source.is_closed)
    assert behind.source.made * len(PIECE) < BYTES_MAX
    writer.transport.abort()


async def test_a_reader_who_goes_away_closes_the_source(behind: Behind) -> None:
    behind.source.pause_s = 0.05
    reader, writer = await behind.ask()
    await reader.read(100)
    writer.transport.abort()
    await eventually(lambda: behind.source.is_closed)


async def test_the_end_of_the_process_ends_an_answer_properly(behind: Behind) -> None:
    behind.source.pause_s = 0.01
    reader, writer = await behind.ask()
    await reader.read(100)
    last = b""
    behind.stopping.set()
    async with asyncio.timeout(30):
        while piece := await reader.read(1 << 20):
            last = piece
    assert last.endswith(b"0\r\n\r\n")
    assert behind.source.is_closed
    writer.close()
