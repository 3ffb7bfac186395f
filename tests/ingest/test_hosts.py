"""A platform that believes names answers to nobody but this machine."""

import httpx
import pytest
from fastapi import FastAPI

from ingest.http.middleware import AllowedHostsMiddleware
from shared.settings import LOOPBACK

OURS = ("127.0.0.1:8000", "127.0.0.1", "localhost:8000", "LOCALHOST", "[::1]:8000")
NOT_OURS = ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "a b")


@pytest.mark.parametrize("host", [*OURS, *NOT_OURS])
async def test_other_host_names_are_refused(host: str) -> None:
    app = FastAPI()
    app.add_middleware(AllowedHostsMiddleware, names=LOOPBACK)

    @app.get("/")
    async def answer() -> str:
        return "well"

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        answer_ = await http.get("/", headers={"Host": host})
    assert answer_.status_code == (200 if host in OURS else 422)
