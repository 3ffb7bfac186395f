"""Applications behind real sockets of this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.types import ASGIApp

from shared.http import serve
from shared.http_connections import HttpLimits
from tests.support.waits import free_port


@asynccontextmanager
async def serve_app(
    app: ASGIApp, limits: HttpLimits | None = None
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Serve an application over a real socket; yields its URL and the event that stops it."""
    port, stopping = free_port(), asyncio.Event()
    serving = asyncio.create_task(serve(app, "127.0.0.1", port, stopping, limits))
    url = f"http://127.0.0.1:{port}"
    try:
        await _is_up(url)
        yield url, stopping
    finally:
        stopping.set()
        await asyncio.wait_for(serving, 20)


async def _is_up(url: str) -> None:
    async with asyncio.timeout(30), httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(url)
            except httpx.TransportError:
                await asyncio.sleep(0.01)
            else:
                return
