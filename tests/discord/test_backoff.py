"""How often the bot repeats what it does at intervals while the platform is away."""

import asyncio

import httpx
import pytest

from discord_edge.background import PAUSE_S_MAX, repeat_with_backoff
from discord_edge.platform_api import LeaderboardCache, PlatformApi
from shared.errors import Failed

PAUSES_MAX = 8


class Clock:
    """Stands still: pauses end at once and are counted, and the last one ends the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def sleep(self, pause_s: float) -> None:
        """Count a pause."""
        self.pauses.append(pause_s)
        if len(self.pauses) > PAUSES_MAX:
            raise asyncio.CancelledError


async def test_pauses_grow_while_the_platform_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, requests = Clock(monkeypatch), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(503, json={"code": "unavailable", "detail": "try again"})

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        with pytest.raises(asyncio.CancelledError):
            await LeaderboardCache(PlatformApi(client)).run()
    assert clock.pauses == [2.0, 4.0, 8.0, 16.0, *[PAUSE_S_MAX] * (PAUSES_MAX - 3)]
    assert len(requests) == PAUSES_MAX + 1


async def test_the_first_success_ends_the_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, failures = Clock(monkeypatch), [Failed("away"), Failed("away")]

    async def work() -> None:
        if failures:
            raise failures.pop()

    with pytest.raises(asyncio.CancelledError):
        await repeat_with_backoff(work, 1.0, "a test")
    assert clock.pauses[:5] == [1.0, 2.0, 4.0, 1.0, 1.0]
