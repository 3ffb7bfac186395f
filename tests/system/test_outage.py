"""The bus stands still for longer than an agent may be silent, and a healthy run goes on."""

import asyncio
import os
import signal

import pytest

from tests.support.people import Person
from tests.support.platform import Running

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(180)]

# Longer than `silent_s_max` of the scheduler, and too short for `warpboard up` to restart a NATS
# server that does not answer (`UNCHECKED_S_MAX` and `FAILING_S_MIN`, 20 s together).
STILL_S = 17
# Sixteen calls, 24 s: the run outlasts the outage.
LONG = """
import time


def custom_kernel(data):
    time.sleep(1.5)
    data[-1].copy_(data[0])
    return data[-1]
"""


async def test_an_outage_of_the_bus_is_no_agents_silence(platform_to_kill: Running) -> None:
    with Person(platform_to_kill.url, "ada") as ada:
        number = ada.submit(LONG)
        found = ada.http.get(f"/v1/submissions/{number}", params={"wait_s": 5}).json()
        while found["state"] != "running":
            query = {"after": found["version"], "wait_s": 5}
            found = ada.http.get(f"/v1/submissions/{number}", params=query).json()
        nats = platform_to_kill.pid("nats-server")
        assert nats is not None
        os.kill(nats, signal.SIGSTOP)
        try:
            await asyncio.sleep(STILL_S)  # The outage itself.
        finally:
            os.kill(nats, signal.SIGCONT)
        end = ada.end(number)
    assert (end["outcome"], end["attempt"]) == ("passed", 1), end["reason"]
