"""Two hundred clients submit and follow at once, over connections that break at any byte."""

import asyncio
import random
from collections.abc import Iterator

import httpx
import pytest
from bench.noop_platform import start_agents, stop

from tests.ranker.streaming import StreamListener, listen
from tests.support.people import HONEST
from tests.support.platform import Running

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
]
CLIENTS = 200
AGENTS = 4
CUTS_MAX = 3
TRIES_MAX = 10
# A history has some 2000 bytes: a cut falls anywhere in it.
BYTES_MAX = 1500
WITHIN_S = 150.0
JSON = {"Accept": "application/json"}


@pytest.fixture
def crowded(platform_to_kill: Running) -> Iterator[str]:
    """A platform with agents that pass at once: its address."""
    nats_url, keys = platform_to_kill.bus_login().url, platform_to_kill.folder / "keys"
    url, headers = platform_to_kill.url, platform_to_kill.operator
    with httpx.Client(base_url=url, headers=headers) as operator:
        agents = start_agents(operator, nats_url, keys, AGENTS, "noop")
    try:
        yield url
    finally:
        stop(agents)


class Patient(httpx.AsyncHTTPTransport):
    """Asks again when it is told to, as clients do where there is no room for a moment."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for _ in range(TRIES_MAX):
            answer = await super().handle_async_request(request)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return answer
            await answer.aclose()
            await asyncio.sleep(int(answer.headers["retry-after"]))
        raise AssertionError(f"{request.url} has no room for a client who asks {TRIES_MAX} times")


async def submit(http: httpx.AsyncClient, name: str) -> int:
    """A submission of somebody's, however often it is sent; its number."""
    files = {"file": ("kernel.py", f"# {name}\n{HONEST}".encode())}
    data = {"problem": "identity", "mode": "ranked", "gpu": "H100"}
    key = {"Idempotency-Key": f"only-one-of-{name}"}
    answer = await http.post("/v1/submissions", data=data, files=files, headers=key)
    assert answer.status_code == 202, answer.text
    return int(answer.json()["submissions"][0]["number"])


async def follow(
    http: httpx.AsyncClient, number: int, dice: random.Random
) -> tuple[StreamListener, int]:
    """A whole history over connections that are cut, and how often they were."""
    heard, cuts = StreamListener(), 0
    url = f"/v1/submissions/{number}/events"
    while not heard.is_end:
        limit = dice.randrange(1, BYTES_MAX) if cuts < CUTS_MAX else None
        await listen(http, url, heard, limit)
        cuts += not heard.is_end
    return heard, cuts


async def one(base: str, name: str) -> tuple[StreamListener, int, list[int]]:
    """One client's whole life: what it heard live, and what the history is in the end."""
    dice = random.Random(name)
    headers = {"Warpboard-Participant": name}
    client = httpx.AsyncClient(base_url=base, headers=headers, timeout=60, transport=Patient())
    async with client as http:
        number = await submit(http, name)
        heard, cuts = await follow(http, number, dice)
        whole = await http.get(f"/v1/submissions/{number}/events", headers=JSON)
        return heard, cuts, [event["id"] for event in whole.json()]


async def test_two_hundred_clients_lose_and_double_no_event(crowded: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        lives = await asyncio.gather(*(one(crowded, f"c{index}") for index in range(CLIENTS)))
    assert sum(cuts for _, cuts, _ in lives) > CLIENTS
    for heard, _, whole in lives:
        assert heard.places == whole
        assert heard.types[0] == "SubmissionReceived"
        assert heard.types[-1] == "SubmissionRanked"
