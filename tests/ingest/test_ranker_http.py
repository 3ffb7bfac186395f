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

from ingest.ranker_http import IDLE_S_MAX, POOLS, Pools, Ranker, client
from shared.errors import Failed
from shared.reader import ANYBODY
from shared.testing import eventually
from tests.ranker.streaming import served

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
    found = Behind()
    async with await asyncio.start_server(found, "127.0.0.1", 0, backlog=ASKED) as server:
        host, port = server.sockets[0].getsockname()[:2]
        found.url = f"http://{host}:{port}"
        yield found
        await eventually(lambda: found.open == 0)


def opened(http: httpx.AsyncClient) -> list[int]:
    pools = http._transport
    assert isinstance(pools, Pools)
    return pools.open


async def test_who_asks_one_after_the_other_needs_one_connection() -> None:
    async with behind() as found, client(found.url, "k" * 16) as http:
        found.go.set()
        for _ in range(5):
            assert (await Ranker(http).read("/v1/queue", "", {}, ANYBODY)).body == b"{}"
        assert (found.connections, sum(opened(http))) == (1, 0)


def test_an_idle_connection_is_let_go_long_before_ranker_closes_it() -> None:
    assert uvicorn.Config(FastAPI()).timeout_keep_alive > 2 * IDLE_S_MAX


async def test_many_at_once_are_spread_over_all_pools() -> None:
    async with behind() as found, client(found.url, "k" * 16) as http:
        ask = Ranker(http).read
        asking = [asyncio.create_task(ask("/v1/queue", "", {}, ANYBODY)) for _ in range(ASKED)]
        await eventually(lambda: found.asked == ASKED)
        assert set(opened(http)) == {ASKED // POOLS}
        found.go.set()
        answers = await asyncio.gather(*asking)
        assert {answer.status for answer in answers} == {200}
        assert sum(opened(http)) == 0


async def test_who_goes_away_and_what_breaks_off_leave_nothing_open() -> None:
    async with behind() as found, client(found.url, "k" * 16) as http:
        ask = Ranker(http).read
        gone = asyncio.create_task(ask("/v1/queue", "", {}, ANYBODY))
        await eventually(lambda: found.asked == 1)
        gone.cancel()
        await asyncio.wait({gone}, timeout=30)
        found.answer = HEAD
        found.go.set()
        async with Ranker(http).stream("/v1/queue", "", {}, ANYBODY) as stream:
            assert (stream.status, sum(opened(http))) == (200, 1)
        assert sum(opened(http)) == 0
    async with client("http://127.0.0.1:1", "k" * 16) as nobody:
        with pytest.raises(Failed):
            await Ranker(nobody).read("/v1/queue", "", {}, ANYBODY)
        assert sum(opened(nobody)) == 0


def close_wait(port: int) -> int:
    """How many connections to a port the other side has closed, and this one has not."""
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state = line.split()[:4]
        found += int(remote.rpartition(":")[2], 16) == port and state == CLOSE_WAIT
    return found


async def test_when_ranker_restarts_no_connection_stays_half_open() -> None:
    app, go = FastAPI(), asyncio.Event()

    @app.get("/v1/queue")
    async def queue() -> JSONResponse:
        await go.wait()
        return JSONResponse({})

    async with AsyncExitStack() as server:
        url, _ = await server.enter_async_context(served(app))
        port = int(url.rpartition(":")[2])
        async with client(url, "k" * 16) as http:
            ask = Ranker(http).read
            asking = [asyncio.create_task(ask("/v1/queue", "", {}, ANYBODY)) for _ in range(ASKED)]
            await eventually(lambda: sum(opened(http)) == ASKED)
            go.set()
            assert {answer.status for answer in await asyncio.gather(*asking)} == {200}
            await server.aclose()
            # The first look may come before the kernel has told of the end.
            await eventually(lambda: close_wait(port) > 0)
            await eventually(lambda: close_wait(port) == 0, within_s=5 * IDLE_S_MAX)
