"""Downloads pass through the public door piece by piece, with the headers that keep them files."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from ingest.ranker_http import RankerClient
from ingest.reads.limits import DOWNLOADS_MAX
from ingest.reads.routes import reads_router
from shared.http import install_error_handlers
from tests.support.door import nobodys_gate

PIECES = [b"x" * 1000] * 50


def ranker() -> FastAPI:
    """A read side with one file."""
    app = FastAPI()

    @app.get("/v1/submissions/7/files/{name}")
    async def file(name: str) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in PIECES:
                yield piece
                await asyncio.sleep(0)

        headers = {"Content-Disposition": f"attachment; filename={name}", "Set-Cookie": "a=b"}
        return StreamingResponse(pieces(), media_type="application/gzip", headers=headers)

    @app.get("/v1/harnesses/{digest}")
    async def harness(digest: str) -> StreamingResponse:
        return await file(f"{digest}.zip")

    return app


@pytest.fixture
async def door() -> AsyncIterator[httpx.AsyncClient]:
    inner = httpx.ASGITransport(ranker())
    async with httpx.AsyncClient(transport=inner, base_url="http://ranker") as behind:
        app = FastAPI()
        install_error_handlers(app)
        app.include_router(reads_router(RankerClient(behind), nobodys_gate()))
        outer = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=outer, base_url="http://test") as client:
            yield client


async def test_a_download_is_complete_and_sent_as_a_file(door: httpx.AsyncClient) -> None:
    answer = await door.get("/v1/submissions/7/files/samples.json.gz")
    assert answer.content == b"".join(PIECES)
    assert answer.headers["content-type"] == "application/gzip"
    assert answer.headers["content-disposition"] == "attachment; filename=samples.json.gz"
    assert "set-cookie" not in answer.headers


async def test_a_harness_code_is_a_download_like_any_other(door: httpx.AsyncClient) -> None:
    answer = await door.get("/v1/harnesses/7de7")
    assert answer.content == b"".join(PIECES)
    assert answer.headers["content-disposition"] == "attachment; filename=7de7.zip"
    assert (await door.get("/v1/harnesses/..%2Fqueue")).status_code == 404


async def test_many_concurrent_downloads_all_succeed(door: httpx.AsyncClient) -> None:
    requests = [door.get("/v1/submissions/7/files/log.txt") for _ in range(3 * DOWNLOADS_MAX)]
    answers = await asyncio.gather(*requests)
    assert {answer.status_code for answer in answers} == {200}


async def test_a_missing_file_gets_rankers_response(
    door: httpx.AsyncClient,
) -> None:
    assert (await door.get("/v1/submissions/8/files/log.txt")).status_code == 404
