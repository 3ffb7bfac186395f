"""Of two ingests one starts again and again, and no client is left without an answer."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from shared.servers.process import Launch
from tests.support.people import HONEST
from tests.support.platform import Running
from tests.support.waits import eventually, free_port
from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.town import Extra

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(180)]

RESTARTS = 4
CLIENTS = 12
# A request that waits for a frozen process is given up after 8 s, and the other ingest is asked.
WAIT_S_MAX = 30.0
START_S_MAX = 60.0


@asynccontextmanager
async def second_ingest(running: Running, folder: Path) -> AsyncIterator[tuple[Extra, str]]:
    """Another ingest of the same platform, and its address."""
    address = f"127.0.0.1:{free_port()}"
    settings = {"LISTEN": address, "OPS_LISTEN": f"127.0.0.1:{free_port()}"}
    environ = running.environ("ingest")
    environ |= {f"WARPBOARD_INGEST_{name}": value for name, value in settings.items()}
    launch = Launch((sys.executable, "-m", "ingest"), folder / "ingest-2.log", environ=environ)
    extra = Extra(launch)
    extra.start()
    try:
        yield extra, f"http://{address}"
    finally:
        await asyncio.to_thread(extra.stop)


async def is_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).is_success
    except httpx.TransportError:
        return False


def submission(url: str, participant: str, key: str) -> httpx.Request:
    return httpx.Request(
        "POST",
        f"{url}/v1/submissions",
        data={"problem": "identity", "mode": "test", "gpu": "CPU"},
        files={"file": ("kernel.py", f"# {key}\n{HONEST}".encode())},
        headers={"Warpboard-Participant": participant, "Idempotency-Key": key},
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_every_client_is_answered_once_while_one_ingest_restarts(
    platform_to_kill: Running, tmp_path: Path, number: signal.Signals
) -> None:
    own, asked = platform_to_kill.url, Asked()
    answers = []
    async with second_ingest(platform_to_kill, tmp_path) as (extra, other), client(own) as http:
        asker = Asker(http, asked, [own, other])
        for restart in range(RESTARTS):
            await eventually(lambda: is_ready(http, other), within_s=START_S_MAX)
            requests = [
                submission((own, other)[at % 2], f"p{at}", f"{number}-{restart}-{at}")
                for at in range(CLIENTS)
            ]
            asking = asyncio.gather(*(asker.ask("submit", request) for request in requests))
            assert extra.process is not None
            extra.process.send_signal(number)
            await asyncio.to_thread(extra.process.wait, START_S_MAX)
            extra.start()
            answers += await asking
    numbers = {answer.json()["submissions"][0]["number"] for answer in answers if answer}
    assert (len(numbers), asked.faults) == (RESTARTS * CLIENTS, [])
    # One that is told to stop answers what it has received.
    assert asked.retries > 0 or number == signal.SIGTERM
    assert asked.waited_s_max < WAIT_S_MAX
