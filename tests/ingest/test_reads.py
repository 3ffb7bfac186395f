"""Reads pass through the public door, which says who asks; streams come as they come."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from ingest.http.reads import OWN_STREAMS_MAX, Streams, reads
from ingest.http.who import Gate, Keys
from ingest.ranker_http import Ranker
from ingest.service.linking import Linking
from shared.http import install
from shared.reader import HEADER, Reader, decode, encode
from shared.testing import eventually
from tests.ranker.streaming import Heard, listen, served
from tests.support.door import Door as People
from tests.support.door import nobodys_gate
from tests.support.holders import bearer, made

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
    app = FastAPI()
    install(app)
    async with served(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        reads(app, Ranker(client), nobodys_gate())
        try:
            async with served(app) as found:
                yield found
        finally:
            behind.letting_go.set()


Door = tuple[str, asyncio.Event]


async def test_no_client_says_itself_who_it_is(door: Door, behind: Behind) -> None:
    forged = {HEADER: encode(Reader(account="root", is_staff=True))}
    async with httpx.AsyncClient(base_url=door[0], headers=forged) as http:
        for path in ("problems", "submissions/7", "submissions/7/events?after=1"):
            accept = {"Accept": "application/json"}
            async with http.stream("GET", f"/v1/{path}", headers=accept) as answer:
                assert answer.status_code == 200
    assert [decode(one.headers[HEADER]) for one in behind.heard] == [Reader()] * 3


async def test_what_is_known_of_an_answer_passes_both_ways(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        first = await http.get("/v1/problems?limit=3")
        again = await http.get("/v1/problems", headers={"If-None-Match": first.headers["etag"]})
    assert behind.heard[0].url.query == "limit=3"
    assert first.headers["warpboard-projection-lag"] == "0.000"
    assert "set-cookie" not in first.headers
    assert (again.status_code, again.content) == (304, b"")


async def test_a_stream_is_told_at_once_and_its_place_is_passed_on(
    door: Door, behind: Behind
) -> None:
    heard = Heard(places=[3])
    async with httpx.AsyncClient() as http:
        url = f"{door[0]}/v1/submissions/7/events"
        listening = asyncio.create_task(listen(http, url, heard))
        await eventually(lambda: heard.last == 5)
        behind.letting_go.set()
        await asyncio.wait_for(listening, 30)
    assert heard.is_end
    assert behind.heard[0].headers["last-event-id"] == "3"


@pytest.mark.server
async def test_who_lost_their_token_is_told_nothing_more(strict: People, behind: Behind) -> None:
    commands = strict.commands
    linking = Linking(commands.people, commands.tokens)
    gate = Gate(commands.feed, commands.people, commands.tokens, linking, Keys())
    app = FastAPI()
    install(app)
    ada = await made(strict, "ada", "read:own")
    async with served(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        reads(app, Ranker(client), gate)
        async with served(app) as (url, _), httpx.AsyncClient(headers=bearer(ada["token"])) as http:
            heard = Heard()
            address = f"{url}/v1/submissions/7/events"
            listening = asyncio.create_task(listen(http, address, heard))
            await eventually(lambda: heard.last == 5)
            answer = await strict.admin("DELETE", f"tokens/{ada['id']}", reason="lost")
            assert answer.status_code == 200, answer.text
            behind.letting_go.set()
            await asyncio.wait_for(listening, 30)
    assert decode(behind.heard[0].headers[HEADER]).account is not None
    assert not heard.is_end


async def test_one_person_does_not_take_all_streams(door: Door, behind: Behind) -> None:
    url = f"{door[0]}/v1/submissions/7/events"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits) as http:
        heard = [Heard() for _ in range(OWN_STREAMS_MAX)]
        listening = [asyncio.create_task(listen(http, url, one)) for one in heard]
        await eventually(lambda: all(one.last == 5 for one in heard))
        answer = await http.get(url)
        assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
        behind.letting_go.set()
        await asyncio.wait_for(asyncio.gather(*listening), 20)
        assert (await http.get(url)).status_code == 200


async def test_all_together_have_as_many_streams_as_there_are_files_for(behind: Behind) -> None:
    app = FastAPI()
    install(app)
    async with served(behind.app) as (inner, _), httpx.AsyncClient(base_url=inner) as client:
        ranker, gate = Ranker(client), nobodys_gate()
        reads(app, ranker, gate, Streams(ranker, gate, streams_max=2))
        async with served(app) as (address, _), httpx.AsyncClient() as http:
            url = f"{address}/v1/submissions/7/events"
            heard = [Heard(), Heard()]
            listening = [asyncio.create_task(listen(http, url, one)) for one in heard]
            await eventually(lambda: all(one.last == 5 for one in heard))
            answer = await http.get(url)
            assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
            assert answer.json()["detail"].startswith("2 streams are open")
            behind.letting_go.set()
            await asyncio.wait_for(asyncio.gather(*listening), 20)


async def test_what_is_no_read_is_not_passed_on(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        for path in ("/v1/nothing", "/v1/%2e%2e/internal/stats", "/v1/problems/..%2f..%2finternal"):
            assert (await http.get(path)).status_code == 404, path
        wrong = await http.post("/v1/problems/identity")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert not behind.heard


async def test_who_goes_away_is_let_go_behind_too(door: Door, behind: Behind) -> None:
    async with httpx.AsyncClient() as http:
        await listen(http, f"{door[0]}/v1/submissions/7/events", Heard(), len(EVENT))
    await eventually(lambda: not behind.open)


async def test_the_doors_end_ends_its_streams_at_once(door: Door) -> None:
    url, stopping = door
    heard = Heard()
    async with httpx.AsyncClient() as http:
        listening = asyncio.create_task(listen(http, f"{url}/v1/submissions/7/events", heard))
        await eventually(lambda: heard.last == 5)
        stopping.set()
        await asyncio.wait_for(listening, 30)
    assert not heard.is_end


async def test_the_document_tells_of_every_read_and_the_shape_of_errors(door: Door) -> None:
    async with httpx.AsyncClient(base_url=door[0]) as http:
        document = (await http.get("/openapi.json")).json()
    paths = document["paths"]
    assert {"/v1/problems", "/v1/submissions/{number}/events", "/v1/compare"} <= set(paths)
    assert "/v1/{path}" not in paths
    operations = [operation for said in paths.values() for operation in said.values()]
    refused = {"400", "401", "403", "404", "422", "429", "503"}
    assert all(refused <= set(one["responses"]) for one in operations)
    shapes = [
        one["responses"]["422"]["content"]["application/json"]["schema"] for one in operations
    ]
    assert {str(one) for one in shapes} == {"{'$ref': '#/components/schemas/Error'}"}
    assert len({one["operationId"] for one in operations}) == len(operations)
    number = paths["/v1/submissions/{number}"]["get"]["parameters"][0]
    assert (number["name"], number["example"]) == ("number", 1207)
    assert "Error" in document["components"]["schemas"]
