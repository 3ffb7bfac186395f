"""How often somebody may ask, and what every answer carries."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request

from ingest.http.addresses import client_address
from ingest.http.middleware import RateLimitMiddleware, RateLimitRules, ResponseHeadersMiddleware
from tests.support.door import nobodys_gate

TOKEN = {"Authorization": "Bearer wb_unknown"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A service that an address may ask five times a minute."""
    app = FastAPI()
    app.add_middleware(
        RateLimitMiddleware, auth=nobodys_gate(), rates=RateLimitRules("5/minute", "5/minute")
    )
    app.add_middleware(ResponseHeadersMiddleware, auth=nobodys_gate())

    @app.get("/{path:path}")
    async def answer(path: str) -> str:
        return path

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        yield client


@pytest.mark.feature("N18")
async def test_too_many_requests_get_a_retry_time(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        assert (await http.get("/v1/problems")).status_code == 200
    answer = await http.get("/v1/problems")
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["ratelimit-limit"] == "5"
    assert answer.headers["ratelimit-remaining"] == "0"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


async def test_an_unknown_token_gets_no_own_rate(http: httpx.AsyncClient) -> None:
    for number in range(5):
        await http.get("/v1/problems", headers={"Authorization": f"Bearer wb_{number}"})
    assert (await http.get("/v1/problems", headers=TOKEN)).status_code == 429


@pytest.mark.parametrize(
    "path", ["/user/submissions/7", "/v1/submissions/7", "//user/submissions/7"]
)
async def test_polling_every_two_seconds_is_never_refused(
    http: httpx.AsyncClient, path: str
) -> None:
    for _ in range(6):
        await http.get("/v1/problems")
    for _ in range(30):
        assert (await http.get(f"http://door{path}")).status_code == 200


async def test_polling_every_number_is_refused(http: httpx.AsyncClient) -> None:
    statuses = [(await http.get(f"/v1/submissions/{number}")).status_code for number in range(2000)]
    # A minute that ends meanwhile lets a few more through.
    assert 1925 <= statuses.count(200) < 1990


async def test_a_number_counts_once_however_it_is_written(http: httpx.AsyncClient) -> None:
    paths = [f"/v1/submissions/{'0' * count}7" for count in range(80)]
    answers = [(await http.get(path)).status_code for path in paths]
    assert 65 <= answers.count(200) < 75
    assert (await http.get(f"/v1/submissions/{'7' * 17}")).status_code == 429


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::1"),
        ("::ffff:203.0.113.9", "::ffff:203.0.113.9"),
        ("", ""),
    ],
)
def test_one_machine_is_one_address(host: str, counted: str) -> None:
    assert client_address(Request({"type": "http", "client": (host, 1)})) == counted


async def test_health_has_no_rate_limit(http: httpx.AsyncClient) -> None:
    for _ in range(10):
        assert (await http.get("/health")).status_code == 200


async def test_every_response_has_a_request_id(http: httpx.AsyncClient) -> None:
    ids = {(await http.get("/v1/problems")).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize("name", ["authorization", "x-popcorn-cli-id"])
async def test_a_repeated_credential_does_not_evade_the_limit(
    http: httpx.AsyncClient, name: str
) -> None:
    answer = await http.get("/v1/problems", headers=[(name, "Bearer a"), (name, "Bearer b")])
    assert answer.status_code in (200, 400)
