"""Reads are passed on over few connections where few ask, and over many where many do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from ingest.ranker_http import IDLE_S_MAX, POOLS, Pools, RankerClient, open_client
from shared.errors import Failed
from shared.reader import ANONYMOUS_READER
from tests.support.serving import serve_app
from tests.support.waits import eventually

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n{}"
ASKED = 2 * POOLS
# As Linux writes the state in /proc/net/tcp.
CLOSE_WAIT = "08"


class Behind:
    """A read side that answers when it is let to, and counts who came."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.answer = ANSWER
        self.connections = 0
        self.open = 0
        self.asked = 0
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer on one connection for as long as it is open."""
        self.connections += 1
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.asked += 1
                await self.go.wait()
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.open -= 1
        finally:
            writer.close()


@asynccontextmanager
async def behind() -> AsyncIterator[Behind]:
    running = Behind()
    async with await asyncio.start_server(running, "127.0.0.1", 0, backlog=ASKED) as server:
        host, port = server.sockets[0].getsockname()[:2]
        running.url = f"http://{host}:{port}"
        yield running
        await eventually(lambda: running.open == 0)


def opened(http: httpx.AsyncClient) -> list[int]:
    pools = http._transport
    assert isinstance(pools, Pools)
    return pools.open


async def test_sequential_requests_use_one_connection() -> None:
    async with behind() as server, open_client(server.url, "k" * 16) as http:
        server.go.set()
        for _ in range(5):
            assert (
                await RankerClient(http).read("/v1/queue", "", {}, ANONYMOUS_READER)
            ).body == b"{}"
        assert (server.connections, sum(opened(http))) == (1, 0)


def test_idle_connections_are_closed_before_ranker_closes_them() -> None:
    assert uvicorn.Config(FastAPI()).timeout_keep_alive > 2 * IDLE_S_MAX


async def test_concurrent_requests_are_spread_over_all_pools() -> None:
    async with behind() as server, open_client(server.url, "k" * 16) as http:
        ask = RankerClient(http).read
        asking = [
            asyncio.create_task(ask("/v1/queue", "", {}, ANONYMOUS_READER)) for _ in range(ASKED)
        ]
        await eventually(lambda: server.asked == ASKED)
        assert set(opened(http)) == {ASKED // POOLS}
        server.go.set()
        answers = await asyncio.gather(*asking)
        assert {answer.status for answer in answers} == {200}
        assert sum(opened(http)) == 0


async def test_cancelled_and_broken_requests_leave_nothing_open() -> None:
    async with behind() as server, open_client(server.url, "k" * 16) as http:
        ask = RankerClient(http).read
        gone = asyncio.create_task(ask("/v1/queue", "", {}, ANONYMOUS_READER))
        await eventually(lambda: server.asked == 1)
        gone.cancel()
        await asyncio.wait({gone}, timeout=30)
        server.answer = HEAD
        server.go.set()
        async with RankerClient(http).stream("/v1/queue", "", {}, ANONYMOUS_READER) as stream:
            assert (stream.status, sum(opened(http))) == (200, 1)
        assert sum(opened(http)) == 0
    async with open_client("http://127.0.0.1:1", "k" * 16) as nobody:
        with pytest.raises(Failed):
            await RankerClient(nobody).read("/v1/queue", "", {}, ANONYMOUS_READER)
        assert sum(opened(nobody)) == 0


def close_wait(port: int) -> int:
    """How many connections to a port the other side has closed, and this one has not."""
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state = line.split()[:4]
        count += int(remote.rpartition(":")[2], 16) == port and state == CLOSE_WAIT
    return count


async def test_when_ranker_restarts_no_connection_stays_half_open() -> None:
    app, go = FastAPI(), asyncio.Event()

    @app.get("/v1/queue")
    async def queue() -> JSONResponse:
        await go.wait()
        return JSONResponse({})

    async with AsyncExitStack() as server:
        url, _ = await server.enter_async_context(serve_app(app))
        port = int(url.rpartition(":")[2])
        async with open_client(url, "k" * 16) as http:
            ask = RankerClient(http).read
            asking = [
                asyncio.create_task(ask("/v1/queue", "", {}, ANONYMOUS_READER))
                for _ in range(ASKED)
            ]
            await eventually(lambda: sum(opened(http)) == ASKED)
            go.set()
            assert {answer.status for answer in await asyncio.gather(*asking)} == {200}
            await server.aclose()
            # The first look may come before the kernel has told of the end.
            await eventually(lambda: close_wait(port) > 0)
            await eventually(lambda: close_wait(port) == 0, within_s=5 * IDLE_S_MAX)
