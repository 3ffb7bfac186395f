"""What the bot measures: its connection, what is asked, what Discord answers, what waits."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord
import pytest
import pytest_asyncio
from aiohttp import web
from discord.ext import commands
from prometheus_client import CollectorRegistry

from discord_edge.metrics import BotMonitor, EdgeMetrics
from shared.clock import now
from shared.errors import Failed, Refused

pytestmark = pytest.mark.asyncio
START = "warpboard_discord_edge_"


class Watched:
    """A bot that is not connected, watched, and what was measured of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = EdgeMetrics(self.registry)
        bot: Any = commands.Bot("!", intents=discord.Intents.none())
        bot.tracker = SimpleNamespace(tasks={1, 2})
        self.watching = BotMonitor(bot, self.metrics)
        self.trace: aiohttp.TraceConfig = bot.http.http_trace

    def value(self, name: str, **labels: str) -> float | None:
        """What a metric says now."""
        return self.registry.get_sample_value(START + name, labels)


def asked(identity: int, command: str) -> Any:
    """An interaction by a command."""
    kind = discord.InteractionType.application_command
    return SimpleNamespace(id=identity, type=kind, command=SimpleNamespace(qualified_name=command))


@pytest_asyncio.fixture
async def answers() -> AsyncIterator[Callable[[int], str]]:
    """A server that answers with the status it is asked for, at the address of a callback."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=int(request.query["status"]))

    app = web.Application()
    app.router.add_post("/interactions/{id}/{token}/callback", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield lambda status: f"http://{host}:{port}/interactions/{status}/t/callback?status={status}"
    await runner.cleanup()


async def test_a_connection_is_up_until_it_is_lost() -> None:
    seen = Watched()
    assert seen.value("gateway_up") == 0
    await seen.watching.on_ready()
    assert seen.value("gateway_up") == 1
    await seen.watching.on_disconnect()
    assert seen.value("gateway_up") == 0
    await seen.watching.on_resumed()
    assert seen.value("gateway_up") == 1
    assert seen.value("gateway_sessions_total", how="resumed") == 1
    assert seen.value("followed_submissions") == 2


async def test_first_responses_are_timed_and_late_ones_counted(
    answers: Callable[[int], str],
) -> None:
    seen = Watched()
    async with aiohttp.ClientSession(trace_configs=[seen.trace]) as http:
        for status in (204, 404, 429):
            await seen.watching.on_interaction(asked(status, "ping"))
            await http.post(answers(status))
        with pytest.raises(aiohttp.ClientError):
            await http.post("http://127.0.0.1:1/")
    assert seen.value("interactions_total", command="ping") == 3
    assert seen.value("acknowledgement_seconds_count") == 1
    assert seen.value("interactions_failed_total", command="ping", outcome="late") == 1
    said = {one: seen.value("rest_answers_total", status=one) for one in ("2xx", "4xx", "429")}
    assert said == {"2xx": 1, "4xx": 1, "429": 1}
    assert seen.value("rest_answers_total", status="none") == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Refused("no", "no"), "refused"), (Failed("away"), "failed"), (ValueError(), "broken")],
)
async def test_failed_interactions_are_counted_by_cause(error: Exception, outcome: str) -> None:
    seen = Watched()
    await seen.watching.on_interaction_failed(asked(1, "ping"), error)
    assert seen.value("interactions_failed_total", command="ping", outcome=outcome) == 1


async def test_the_age_of_the_current_event_is_measured() -> None:
    seen, ages = Watched(), []

    async def act(*_: Any) -> None:
        ages.append(seen.value("post_waiting_seconds"))

    old: Any = SimpleNamespace(envelope=SimpleNamespace(at=now() - timedelta(hours=1)))
    await seen.metrics.watch_announcements(act)(old, "nonce")
    assert ages[0] == pytest.approx(3600, abs=60)
    assert seen.value("post_waiting_seconds") == 0
    assert seen.value("posts_told_total") == 1
