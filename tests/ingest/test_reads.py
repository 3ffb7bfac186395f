"""Reads pass through the public door, which says who asks; streams come as they come."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from ingest.http.document import PublicApi
from ingest.identity.http.authenticator import AuthConfig, Authenticator
from ingest.identity.login.cli_ids import CliIdLinking
from ingest.ranker_http import RankerClient
from ingest.reads.limits import OWN_STREAMS_MAX, StreamLimiter
from ingest.reads.routes import reads_router
from shared.http import install_error_handlers
from shared.reader import READER_HEADER, Reader, decode_reader, encode_reader
from tests.ranker.streaming import StreamListener, listen
from tests.support.door import Door as People
from tests.support.door import nobodys_gate
from tests.support.holders import bearer, made
from tests.support.serving import serve_app
from tests.support.waits import eventually

EVENT = b'id: 5\nevent: RunStarted\ndata: {"id":5}\n\n'


class Behind:
    """A read side that says what it was asked, with one stream that goes on until it is let go."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.heard: list[Request] = []
        self.letting_go = asyncio.Event()
        self.open = 0
        self.app.get("/v1/submissions/{number}/events")(self.events)
        self.app.get("/v1/{path:path}")(self.read)

    async def read(self, path: str, request: Request) -> Response:
        """What any read answers."""
        self.heard.append(request)
        headers = {"ETag": '"7.x"', "Warpboard-Projection-Lag": "0.000", "Set-Cookie": "a=b"}
        status = 304 if request.headers.get("if-none-match") == '"7.x"' else 200
        return Response(path, status, headers, "application/json")

    async def events(self, number: int, request: Request) -> Response:
        """One event, then nothing until it is let go."""
        if "json" in request.headers["accept"]:
            return await self.read(str(number), request)
        self.heard.append(request)

        async def pieces() -> AsyncIterator[bytes]:
            self.open += 1
            try:
                yield EVENT
                await self.letting_go.wait()
                yield b"event: end\ndata: {}\n\n"
            finally:
                self.open -= 1

        return StreamingResponse(pieces(), media_type="text/event-stream")


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
async def door(behind: Behind) -> AsyncIterator[tuple[str, asyncio.Event]]:
    app = PublicApi()
    install_error_handlers(app)
    async with serve_app(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        app.include_router(reads_router(RankerClient(client), nobodys_gate()))
        try:
            async with serve_app(app) as served_door:
                yield served_door
        finally:
            behind.letting_go.set()


Door = tuple[str, asyncio.Event]


async def test_clients_cannot_set_the_reader(door: Door, behind: Behind) -> None:
    forged = {READER_HEADER: encode_reader(Reader(account="root", is_staff=True))}
    async with httpx.AsyncClient(base_url=door[0], headers=forged) as http:
        for path in ("problems", "submissions/7", "submissions/7/events?after=1"):
            accept = {"Accept": "application/json"}
            async with http.stream("GET", f"/v1/{path}", headers=accept) as answer:
                assert answer.status_code == 200
    assert [decode_reader(request.headers[READER_HEADER]) for request in behind.heard] == [
        Reader()
    ] * 3


async def test_known_headers_are_forwarded_both_ways(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        first = await http.get("/v1/problems?limit=3")
        again = await http.get("/v1/problems", headers={"If-None-Match": first.headers["etag"]})
    assert behind.heard[0].url.query == "limit=3"
    assert first.headers["warpboard-projection-lag"] == "0.000"
    assert "set-cookie" not in first.headers
    assert (again.status_code, again.content) == (304, b"")


async def test_a_stream_is_forwarded_at_once_with_its_position(door: Door, behind: Behind) -> None:
    heard = StreamListener(places=[3])
    async with httpx.AsyncClient() as http:
        url = f"{door[0]}/v1/submissions/7/events"
        listening = asyncio.create_task(listen(http, url, heard))
        await eventually(lambda: heard.last == 5)
        behind.letting_go.set()
        await asyncio.wait_for(listening, 30)
    assert heard.is_end
    assert behind.heard[0].headers["last-event-id"] == "3"


@pytest.mark.server
async def test_a_stream_ends_when_its_token_is_revoked(strict: People, behind: Behind) -> None:
    commands = strict.commands
    linking = CliIdLinking(commands.people, commands.tokens)
    auth = Authenticator(
        commands.feed, commands.people.store, commands.tokens.usage, linking.claim, AuthConfig()
    )
    app = FastAPI()
    install_error_handlers(app)
    ada = await made(strict, "ada", "read:own")
    async with serve_app(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        app.include_router(reads_router(RankerClient(client), auth))
        async with (
            serve_app(app) as (url, _),
            httpx.AsyncClient(headers=bearer(ada["token"])) as http,
        ):
            heard = StreamListener()
            address = f"{url}/v1/submissions/7/events"
            listening = asyncio.create_task(listen(http, address, heard))
            await eventually(lambda: heard.last == 5)
            answer = await strict.admin("DELETE", f"tokens/{ada['id']}", reason="lost")
            assert answer.status_code == 200, answer.text
            behind.letting_go.set()
            await asyncio.wait_for(listening, 30)
    assert decode_reader(behind.heard[0].headers[READER_HEADER]).account is not None
    assert not heard.is_end


async def test_one_person_cannot_open_all_streams(door: Door, behind: Behind) -> None:
    url = f"{door[0]}/v1/submissions/7/events"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits) as http:
        heard = [StreamListener() for _ in range(OWN_STREAMS_MAX)]
        listening = [asyncio.create_task(listen(http, url, event)) for event in heard]
        await eventually(lambda: all(event.last == 5 for event in heard))
        answer = await http.get(url)
        assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
        behind.letting_go.set()
        await asyncio.wait_for(asyncio.gather(*listening), 20)
        assert (await http.get(url)).status_code == 200


async def test_open_streams_are_limited_by_open_files(behind: Behind) -> None:
    app = FastAPI()
    install_error_handlers(app)
    async with serve_app(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        ranker, auth = RankerClient(client), nobodys_gate()
        app.include_router(reads_router(ranker, auth, StreamLimiter(ranker, auth, streams_max=2)))
        async with serve_app(app) as (address, _), httpx.AsyncClient() as http:
            url = f"{address}/v1/submissions/7/events"
            heard = [StreamListener(), StreamListener()]
            listening = [asyncio.create_task(listen(http, url, event)) for event in heard]
            await eventually(lambda: all(event.last == 5 for event in heard))
            answer = await http.get(url)
            assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
            assert answer.json()["detail"].startswith("2 streams are open")
            behind.letting_go.set()
            await asyncio.wait_for(asyncio.gather(*listening), 20)


async def test_only_reads_are_forwarded(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        for path in ("/v1/nothing", "/v1/%2e%2e/internal/stats", "/v1/problems/..%2f..%2finternal"):
            assert (await http.get(path)).status_code == 404, path
        wrong = await http.post("/v1/problems/identity")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert not behind.heard


async def test_a_client_that_leaves_ends_the_stream_of_ranker(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient() as http:
        await listen(http, f"{door[0]}/v1/submissions/7/events", StreamListener(), len(EVENT))
    await eventually(lambda: not behind.open)


async def test_a_shutdown_ends_streams_at_once(door: Door) -> None:
    url, stopping = door
    heard = StreamListener()
    async with httpx.AsyncClient() as http:
        listening = asyncio.create_task(listen(http, f"{url}/v1/submissions/7/events", heard))
        await eventually(lambda: heard.last == 5)
        stopping.set()
        await asyncio.wait_for(listening, 30)
    assert not heard.is_end


async def test_the_document_has_every_read_and_the_form_of_errors(door: Door) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        document = (await http.get("/openapi.json")).json()
    paths = document["paths"]
    assert {"/v1/problems", "/v1/submissions/{number}/events", "/v1/compare"} <= set(paths)
    assert "/v1/{path}" not in paths
    operations = [operation for methods in paths.values() for operation in methods.values()]
    refused = {"400", "401", "403", "404", "422", "429", "503"}
    assert all(refused <= set(operation_["responses"]) for operation_ in operations)
    shapes = [
        operation_["responses"]["422"]["content"]["application/json"]["schema"]
        for operation_ in operations
    ]
    assert {str(operation_) for operation_ in shapes} == {"{'$ref': '#/components/schemas/Error'}"}
    assert len({operation_["operationId"] for operation_ in operations}) == len(operations)
    number = paths["/v1/submissions/{number}"]["get"]["parameters"][0]
    assert (number["name"], number["example"]) == ("number", 1207)
    assert "Error" in document["components"]["schemas"]
