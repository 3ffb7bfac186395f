"""A request whose head does not end is refused, over real connections."""

import asyncio

import pytest
from fastapi import FastAPI

from shared.heads import HEAD_BYTES_MAX
from tests.ranker.streaming import served


async def asked(url: str, *pieces: bytes) -> bytes:
    """What a server answers to a request that comes in pieces."""
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

    async with served(app) as (url, _):
        begin = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
        assert (await asked(url, begin + head + b"\r\n"))[9:12] == status


async def test_a_head_without_an_end_is_not_kept() -> None:
    async with served(FastAPI()) as (url, _):
        said = await asked(url, b"GET / HTTP/1.1\r\nX-A: ", *[b"a" * 16_384] * 100)
        assert said[9:12] in (b"431", b"")


@pytest.mark.long
async def test_a_connection_outlives_polls_every_five_seconds() -> None:
    """The public client polls at that interval; a server that closes then lets it die."""
    app = FastAPI()

    @app.get("/")
    async def here() -> str:
        """Something to ask for."""
        return "here"

    async with served(app) as (url, _):
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
