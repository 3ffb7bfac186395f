"""Changes to the behaviour of discord.py: URL, backoff, retries and a circuit breaker."""

import logging
import re
import time
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
import discord
import yarl
from discord.backoff import ExponentialBackoff
from discord.http import Route
from discord.webhook.async_ import AsyncWebhookAdapter, async_context

# Discord bans an address after 10 000 of these in ten minutes.
INVALID = frozenset({401, 403, 429})
WINDOW_S = 600.0
ROUTE_MAX, ALL_MAX = 100, 2000
# Answers to interactions are never stopped: users must be told about the trouble.
FREE = "POST /interactions"
_ID = re.compile(r"\d{15,}")
_SECRET_LENGTH_MIN = 40
# By default, discord.py waits up to a quarter of an hour after an outage of that length.
RECONNECT_S_MAX = 30.0
# The path of the first answer to an interaction, and Discord's error code for a second one.
CALLBACK, ANSWERED = "/callback", 40060

_log = logging.getLogger(__name__)


def route_key(method: str, path: str) -> str:
    """Return the key under which a request is counted: method, path and its first id.

    >>> route_key("PATCH", "/api/v10/channels/123456789012345678/messages/223456789012345678")
    'PATCH /channels/123456789012345678/messages/*'
    >>> route_key("POST", "/api/v10/webhooks/123456789012345678/" + "a" * 60)
    'POST /webhooks/123456789012345678/*'
    """
    parts, ids_count = [], 0
    for part in re.sub(r"^/api/v\d+", "", path).split("/"):
        is_id = bool(_ID.fullmatch(part))
        ids_count += is_id
        is_hidden = (is_id and ids_count > 1) or len(part) >= _SECRET_LENGTH_MIN
        parts.append("*" if is_hidden else part)
    return f"{method} {'/'.join(parts)}"


class CircuitBreaker:
    """Counts refusals per route over the last ten minutes; times are seconds of one clock."""

    def __init__(self) -> None:
        self._refusals: deque[tuple[float, str]] = deque()
        self._counts: Counter[str] = Counter()

    def record(self, route: str, status: int, at: float) -> bool:
        """Count a response. Returns whether this response opened the circuit for its route."""
        if status not in INVALID:
            return False
        was_open = self.is_open(route, at)
        self._refusals.append((at, route))
        self._counts[route] += 1
        return self.is_open(route, at) and not was_open

    def is_open(self, route: str, at: float) -> bool:
        """Whether requests to a route must not be sent for now."""
        while self._refusals and at - self._refusals[0][0] > WINDOW_S:
            _, old_route = self._refusals.popleft()
            self._counts[old_route] -= 1
            if not self._counts[old_route]:
                del self._counts[old_route]
        if route.startswith(FREE):
            return False
        return len(self._refusals) >= ALL_MAX or self._counts[route] >= ROUTE_MAX


class CircuitOpenError(aiohttp.ClientError):
    """A request was not sent because Discord refused too many of its kind."""


class CappedBackoff(ExponentialBackoff[Literal[False]]):
    """Growing pauses between attempts to reconnect, with an upper limit."""

    def delay(self) -> float:
        """Return the length of the next pause."""
        return min(super().delay(), RECONNECT_S_MAX)


def cap_reconnect_backoff() -> None:
    """Make discord.py try to reconnect at least every half minute."""
    vars(discord.client)["ExponentialBackoff"] = CappedBackoff


def use_discord_url(url: str) -> None:
    """Make discord.py use another Discord than the public one."""
    discord.http.Route.BASE = f"{url.rstrip('/')}/api/v10"
    gateway = yarl.URL(url.replace("http", "ws", 1).rstrip("/") + "/")
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = gateway


class RetryingWebhookAdapter(AsyncWebhookAdapter):
    """Repeats a request once if its answer is lost, so that users are not left waiting."""

    async def request(self, route: Route, session: aiohttp.ClientSession, **options: Any) -> Any:
        """Send a request; new messages are not repeated, because they might appear twice."""
        is_first_answer = route.path.endswith(CALLBACK)
        try:
            return await super().request(route, session, **options)
        except (aiohttp.ClientError, OSError):
            if route.method == "POST" and not is_first_answer:
                raise
        for file in options.get("files") or ():
            file.reset(seek=True)
        try:
            return await super().request(route, session, **options)
        except discord.HTTPException as error:
            if not is_first_answer or error.code != ANSWERED:
                raise
            # The first request had arrived.
            return {"interaction": {"id": str(route.webhook_id), "type": 0}}


def retry_lost_answers() -> None:
    """Make answers to interactions survive a connection that is cut once."""
    async_context.set(RetryingWebhookAdapter())  # type: ignore[no-untyped-call]  # the library's


def trace_with_breaker(
    breaker: CircuitBreaker, trace: aiohttp.TraceConfig | None = None
) -> aiohttp.TraceConfig:
    """Check every request of discord.py against the circuit breaker, and record its response."""

    async def before_request(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        context.route = route_key(params.method, params.url.path)
        if breaker.is_open(context.route, time.monotonic()):
            reason = f"{context.route} was refused too often: sent again within ten minutes"
            raise CircuitOpenError(reason)

    async def after_response(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if breaker.record(context.route, params.response.status, time.monotonic()):
            _log.error(
                "%s is not requested for now because Discord refused it too often; check the "
                "bot's permissions (docs/discord.md)",
                context.route,
            )

    config = trace or aiohttp.TraceConfig()
    config.on_request_start.append(before_request)
    config.on_request_end.append(after_response)
    return config
