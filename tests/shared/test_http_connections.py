"""Slow and endless requests are ended while others are served, over real connections."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from shared.errors import Refused
from shared.http import install_error_handlers
from shared.http_connections import HEAD_BYTES_MAX, HttpLimits, check_times
from tests.support.serving import serve_app

HALF_HEAD = b"GET / HTTP/1.1\r\nHost: here\r\nX-A: "
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n"
QUICK = HttpLimits(head_s=0.5, body_s=0.5, body_bytes_per_s_min=10_000)


class Client:
    """A connection to a server that a test writes to byte by byte.

    It reads from the socket itself: asyncio's streams forget a response that they have, once the
    server resets the connection after it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""

    async def send(self, data: bytes) -> None:
        """Send a piece, unless the server has closed the connection."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self.connection, data)

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and body of a response; 0 if the connection closes without one."""
        while b"\r\n\r\n" not in self.received:
            if not await self._receive():
                return 0, b""
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(self.received) < length:
            assert await self._receive(), "the connection ended within a body"
        body, self.received = self.received[:length], self.received[length:]
        return int(head[9:12]), body

    async def is_closed(self) -> bool:
        """Return whether the server closes the connection without another byte."""
        return not self.received and not await self._receive()

    async def _receive(self) -> bool:
        """Receive more, within 30 s; False if the connection is closed."""
        async with asyncio.timeout(30):
            try:
                data = await asyncio.get_running_loop().sock_recv(self.connection, 65_536)
            except ConnectionError:
                return False
        self.received += data
        return bool(data)


@asynccontextmanager
async def connected(url: str, *pieces: bytes) -> AsyncIterator[Client]:
    """Connect a client that has sent some bytes."""
    address = httpx.URL(url)
    with socket.socket() as connection:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (address.host, address.port))
        client = Client(connection)
        for piece in pieces:
            await client.send(piece)
        yield client


def echo() -> FastAPI:
    """An application that answers with the length of what it is sent."""
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/")
    async def here() -> str:
        return "here"

    @app.post("/")
    async def length(request: Request) -> int:
        return len(await request.body())

    @app.post("/refused")
    async def refused() -> None:
        raise Refused("missing_credential", "who is it?")

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(8):
                await asyncio.sleep(QUICK.head_s / 4)
                yield b"x"

        return StreamingResponse(pieces(), headers={"Content-Length": "8"})

    return app


async def half_heads(stack: AsyncExitStack, url: str, count: int) -> Sequence[Client]:
    """Connect so many clients that have sent a part of a head."""
    return [await stack.enter_async_context(connected(url, HALF_HEAD)) for _ in range(count)]


async def test_half_sent_heads_are_ended_and_others_are_served_meanwhile() -> None:
    async with serve_app(echo(), QUICK) as (url, _), AsyncExitStack() as stack:
        clients = await half_heads(stack, url, 100)
        async with httpx.AsyncClient() as http:
            assert (await http.get(url)).status_code == 200
        answers = [await client.answer() for client in clients]
        assert {status for status, _ in answers} == {408}
        assert json.loads(answers[0][1])["code"] == "request_timeout"
        assert all([await client.is_closed() for client in clients])


async def test_a_response_before_a_reset_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with connected(f"http://127.0.0.1:{port}", HALF_HEAD) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            # Closed with unread data: a reset.
            await asyncio.sleep(0.05)
            assert await client.answer() == (503, b"")
            assert await client.is_closed()


async def test_a_connection_without_a_byte_is_closed() -> None:
    async with serve_app(echo(), QUICK) as (url, _), connected(url) as client:
        assert await client.is_closed()


async def test_a_head_that_trickles_in_has_no_more_time() -> None:
    async with serve_app(echo(), QUICK) as (url, _), connected(url, HALF_HEAD) as client:

        async def trickle() -> None:
            while True:
                await client.send(b"a")
                await asyncio.sleep(QUICK.head_s / 5)

        trickling = asyncio.create_task(trickle())
        assert (await client.answer())[0] == 408
        trickling.cancel()
        await asyncio.wait({trickling})


async def test_the_second_request_of_a_connection_has_limits_too() -> None:
    async with serve_app(echo(), QUICK) as (url, _):
        async with connected(url, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n") as client:
            assert (await client.answer())[0] == 200
            await client.send(HALF_HEAD)
            assert (await client.answer())[0] == 408
        async with connected(url, POST % 5, b"12345") as client:
            assert await client.answer() == (200, b"5")
            await client.send(POST % 5 + b"1")
            assert (await client.answer())[0] == 408


async def test_what_is_being_answered_goes_on_beside_a_half_sent_head() -> None:
    ask = b"GET /stream HTTP/1.1\r\nHost: here\r\n\r\n"
    async with serve_app(echo(), QUICK) as (url, _), connected(url, ask, b"GET /") as client:
        assert await client.answer() == (200, b"x" * 8)
        assert (await client.answer())[0] == 408


async def test_a_slow_body_is_answered_408() -> None:
    async with serve_app(echo(), QUICK) as (url, _), connected(url, POST % 1000, b"a") as client:
        status, body = await client.answer()
        assert (status, json.loads(body)["code"]) == (408, "request_timeout")
        assert await client.is_closed()


async def test_a_body_that_keeps_coming_may_take_longer() -> None:
    async with serve_app(echo(), QUICK) as (url, _), connected(url, POST % 200_000) as client:
        for _ in range(20):
            await client.send(b"a" * 10_000)
            await asyncio.sleep(QUICK.body_s / 10)
        assert await client.answer() == (200, b"200000")


async def test_a_refusal_is_heard_by_who_still_sends() -> None:
    head = b"POST /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 10000000\r\n\r\n"
    async with serve_app(echo(), QUICK) as (url, _), connected(url, head) as client:
        assert (await client.answer())[0] == 401
        await client.send(b"a" * 10_000_000)
        await client.send(POST % 3 + b"123")
        assert await client.answer() == (200, b"3")


async def test_who_was_refused_and_sends_nothing_is_closed() -> None:
    head = b"POST /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 10000000\r\n\r\n"
    async with serve_app(echo(), QUICK) as (url, _), connected(url, head) as client:
        assert (await client.answer())[0] == 401
        assert await client.is_closed()


async def test_with_too_many_connections_the_one_that_waits_longest_gives_way() -> None:
    limits = HttpLimits(connections_max=20)
    async with serve_app(echo(), limits) as (url, _), AsyncExitStack() as stack:
        clients = await half_heads(stack, url, 40)
        async with httpx.AsyncClient() as http:
            assert (await http.get(url)).status_code == 200
        assert (await clients[0].answer())[0] == 503
        await clients[-1].send(b"a\r\n\r\n")
        assert (await clients[-1].answer())[0] == 200


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_limit_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(
        Refused, match=r"WARPBOARD_X_HEAD_S is .*: expected a positive number of seconds"
    ):
        check_times("WARPBOARD_X", HttpLimits(head_s=seconds))


def limited_to(files: int) -> "subprocess.CompletedProcess[str]":
    """Run a process with these limits on open files, which raises the soft one."""
    program = (
        "import resource, sys\n"
        "from shared.lifecycle import raise_file_limit\n"
        "from shared.errors import Refused\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, {files}), {files}))\n"
        "try: print(raise_file_limit())\n"
        "except Refused as refused: sys.exit(refused.reason)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_limit_on_open_files_is_raised_as_far_as_it_goes() -> None:
    assert limited_to(600).stdout == "600\n"


def test_too_low_a_limit_on_open_files_is_refused_with_the_way_out() -> None:
    result = limited_to(300)
    assert result.returncode == 1
    assert "may open 300 files at once, but needs at least 512" in result.stderr
    assert "ulimit -Hn" in result.stderr


async def asked(url: str, *pieces: bytes) -> bytes:
    """Return a server's response to a request sent in pieces."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(100), 30)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"X-A: a\r\n", b"200"),
        (b"X-A: " + b"a" * (HEAD_BYTES_MAX - 100) + b"\r\n", b"200"),
        (b"X-A: " + b"a" * HEAD_BYTES_MAX + b"\r\n", b"431"),
        (b"X-A: a\r\n" * 20_000, b"431"),
    ],
)
async def test_a_long_head_is_refused(head: bytes, status: bytes) -> None:
    app = FastAPI()

    @app.get("/")
    async def here() -> str:
        """Something to ask for."""
        return "here"

    async with serve_app(app) as (url, _):
        begin = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
        assert (await asked(url, begin + head + b"\r\n"))[9:12] == status


async def test_a_head_without_an_end_is_not_kept() -> None:
    async with serve_app(FastAPI()) as (url, _):
        response = await asked(url, b"GET / HTTP/1.1\r\nX-A: ", *[b"a" * 16_384] * 100)
        assert response[9:12] in (b"431", b"")


@pytest.mark.long
async def test_a_connection_outlives_polls_every_five_seconds() -> None:
    """The public client polls at that interval; a server that closes then makes it fail."""
    app = FastAPI()

    @app.get("/")
    async def here() -> str:
        """Something to ask for."""
        return "here"

    async with serve_app(app) as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(4):
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            assert head.startswith(b"HTTP/1.1 200")
            await reader.readexactly(len('"here"'))
            await asyncio.sleep(5)
            assert not reader.at_eof(), "the server closed the connection between two polls"
        writer.close()
