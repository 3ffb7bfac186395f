"""What discord.py is told to do otherwise than it does by itself."""

import logging
import time
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
import discord
import yarl
from discord.backoff import ExponentialBackoff
from discord.http import Route
from discord.webhook.async_ import AsyncWebhookAdapter, async_context

from discord_edge.domain.breaker import Breaker, route

# By itself it would wait up to a quarter of an hour after an outage of one.
RECONNECT_S_MAX = 30.0
# The first answer to an interaction, and what Discord says of a second one.
CALLBACK, ANSWERED = "/callback", 40060

_log = logging.getLogger(__name__)


class Shut(aiohttp.ClientError):
    """A request that was not made, for Discord refused too many of its kind."""


class Soon(ExponentialBackoff[Literal[False]]):
    """Pauses before coming back that grow, but not for ever."""

    def delay(self) -> float:
        """How long to wait now."""
        return min(super().delay(), RECONNECT_S_MAX)


def come_back_soon() -> None:
    """Let a lost connection be tried again every half minute at least."""
    vars(discord.client)["ExponentialBackoff"] = Soon


def turn_to(url: str) -> None:
    """Let discord.py find another Discord than the public one."""
    discord.http.Route.BASE = f"{url.rstrip('/')}/api/v10"
    gateway = yarl.URL(url.replace("http", "ws", 1).rstrip("/") + "/")
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway


class Twice(AsyncWebhookAdapter):
    """Asks a second time where an answer is lost: whoever waits is not to wait for ever."""

    async def request(self, route: Route, session: aiohttp.ClientSession, **given: Any) -> Any:
        """What Discord answers; a message is not sent a second time, for that would be two."""
        is_first_answer = route.path.endswith(CALLBACK)
        try:
            return await super().request(route, session, **given)
        except (aiohttp.ClientError, OSError):
            if route.method == "POST" and not is_first_answer:
                raise
        for file in given.get("files") or ():
            file.reset(seek=True)
        try:
            return await super().request(route, session, **given)
        except discord.HTTPException as error:
            if not is_first_answer or error.code != ANSWERED:
                raise
            # The first one was heard.
            return {"interaction": {"id": str(route.webhook_id), "type": 0}}


def ask_twice() -> None:
    """Let answers to who uses the bot outlive a connection that is cut once."""
    async_context.set(Twice())  # type: ignore[no-untyped-call]  # the library's


def guarded(breaker: Breaker, trace: aiohttp.TraceConfig | None = None) -> aiohttp.TraceConfig:
    """What watches every request that discord.py makes; none is made in vain for long."""

    async def asked(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        context.route = route(params.method, params.url.path)
        if breaker.is_shut(context.route, time.monotonic()):
            raise Shut(f"{context.route} was refused too often: asked again within ten minutes")

    async def answered(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if breaker.saw(context.route, params.response.status, time.monotonic()):
            _log.error(
                "%s is left alone for now: Discord refused it too often; see what the bot may do "
                "there (docs/discord.md)",
                context.route,
            )

    found = trace or aiohttp.TraceConfig()
    found.on_request_start.append(asked)
    found.on_request_end.append(answered)
    return found
