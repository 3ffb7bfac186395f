"""Histories followed through the whole platform: many readers, a killed ranker, no gap."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.ranker.streaming import StreamListener, listen
from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.waits import eventually

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]
READERS = 20
WITHIN_S = 90.0
ADA = {"Warpboard-Participant": "ada"}


async def follow(http: httpx.AsyncClient, url: str, heard: StreamListener) -> StreamListener:
    """Listen until the end, over as many connections as that takes."""
    async with asyncio.timeout(WITHIN_S):
        while not heard.is_end:
            try:
                await listen(http, url, heard)
            except (httpx.TransportError, AssertionError):
                heard.cut()
                await asyncio.sleep(0.2)
    return heard


async def followed(
    platform: Running, number: int, readers: int, meanwhile: Callable[[], Awaitable[None]]
) -> list[StreamListener]:
    """What readers heard of a submission, while something happens."""
    url = f"{platform.url}/v1/submissions/{number}/events"
    limits = httpx.Limits(max_connections=readers)
    async with httpx.AsyncClient(headers=ADA, timeout=30, limits=limits) as http:
        heard = [StreamListener() for _ in range(readers)]
        following = [asyncio.create_task(follow(http, url, one)) for one in heard]
        try:
            await eventually(lambda: all(one.places for one in heard), within_s=60)
            await meanwhile()
            await asyncio.gather(*following)
        finally:
            for one in following:
                one.cancel()
    return heard


async def test_a_killed_ranker_costs_its_readers_nothing(platform_to_kill: Running) -> None:
    with Person(platform_to_kill.url, "ada") as ada:
        number = ada.submit(HONEST, mode="test")

    async def kill() -> None:
        pid = platform_to_kill.pid("ranker")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    heard = await followed(platform_to_kill, number, READERS, kill)
    assert heard[0].types[0] == "SubmissionReceived"
    assert heard[0].types[-1] == "SubmissionEnded"
    url = f"{platform_to_kill.url}/v1/submissions/{number}/events"
    async with httpx.AsyncClient(headers=ADA | {"Accept": "application/json"}) as http:

        async def whole() -> tuple[int, ...]:
            answer = await http.get(url)
            events = answer.json() if answer.is_success else []
            # The new ranker may not have folded the end yet.
            is_over = events and events[-1]["type"] == "SubmissionEnded"
            return tuple(one["id"] for one in events) if is_over else ()

        assert {tuple(one.places) for one in heard} == {await eventually(whole)}
