"""The bot's metrics; they never contain who used it or what for."""

import re
import time
from collections import OrderedDict
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import discord
from discord import app_commands
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.metrics import metric_prefix
from shared.outbox import EffectHandler

if TYPE_CHECKING:
    from discord_edge.bot.interactions import BotInteraction
    from discord_edge.client import EdgeBot

# Discord takes no answer later than three seconds after a command.
ACKNOWLEDGED_S = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0)
NEW, RESUMED = "new", "resumed"
# Refused by the platform or by us; no answer of the platform; a bug; answered too late.
REFUSED, FAILED, BROKEN, LATE = "refused", "failed", "broken", "late"
# Discord bans an address after ten thousand of these in ten minutes.
INVALID = (401, 403, 429)
STATUSES = ("2xx", "4xx", "5xx", "401", "403", "429", "none")
CALLBACK = re.compile(r"/interactions/(\d+)/[^/]+/callback$")
# More than can be open at once, because each expires after three seconds.
OPEN_MAX = 1000


def status_class(status: int) -> str:
    """Return the label for a status: its class, or the status itself if it counts towards a ban.

    >>> status_class(204), status_class(404), status_class(429)
    ('2xx', '4xx', '429')
    """
    return str(status) if status in INVALID else f"{status // 100}xx"


class EdgeMetrics:
    """Metrics of the connection, the interactions, Discord's answers and the announcements."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        start = metric_prefix("discord-edge")

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{start}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{start}_{name}", text, registry=registry)

        self.up = gauge("gateway_up", "1 while connected to Discord")
        self.sessions = counter(
            "gateway_sessions", "Connections to Discord, by how it began", "how"
        )
        self.interactions = counter(
            "interactions", "Commands used, buttons pressed and such", "command"
        )
        self.failures = counter(
            "interactions_failed", "Those that came to nothing", "command", "outcome"
        )
        self.acknowledged = Histogram(
            f"{start}_acknowledgement_seconds",
            "From an interaction to the answer that Discord waits for",
            buckets=ACKNOWLEDGED_S,
            registry=registry,
        )
        self.answers = counter("rest_answers", "What Discord answered", "status")
        self.tracked = gauge("followed_submissions", "Submissions that are told of")
        self._announced = counter("posts_told", "Events of the log that were acted on")
        self._announcing_since: datetime | None = None
        waiting = gauge("post_waiting_seconds", "Age of the event being told")
        waiting.set_function(self._waiting_s)
        for how in (NEW, RESUMED):
            self.sessions.labels(how)
        for status in STATUSES:
            self.answers.labels(status)

    def watch_announcements(self, act: EffectHandler) -> EffectHandler:
        """Wrap an act to measure how long events wait; Discord may be away for a while."""

        async def watched(recorded: RecordedEvent, nonce: str) -> None:
            self._announcing_since = recorded.envelope.at
            try:
                await act(recorded, nonce)
            finally:
                self._announcing_since = None
            self._announced.inc()

        return watched

    def _waiting_s(self) -> float:
        at = self._announcing_since
        return 0.0 if at is None else max(0.0, (now() - at).total_seconds())


def interaction_name(interaction: "BotInteraction") -> str:
    """Name an interaction: a command by its name, anything else by its kind."""
    match interaction.type:
        case discord.InteractionType.component:
            kind = dict(interaction.data or {}).get("component_type")
            return "menu" if kind == discord.ComponentType.select.value else "button"
        case discord.InteractionType.autocomplete:
            return "autocomplete"
        case discord.InteractionType.modal_submit:
            return "modal"
    return interaction.command.qualified_name if interaction.command else "unknown"


class BotMonitor:
    """Observes one bot without changing its behaviour."""

    def __init__(self, bot: "EdgeBot", metrics: EdgeMetrics) -> None:
        self._metrics = metrics
        self._open: OrderedDict[int, tuple[str, float]] = OrderedDict()
        metrics.tracked.set_function(lambda: len(bot.tracker.tasks))
        for name in ("ready", "resumed", "disconnect", "interaction", "interaction_failed"):
            bot.add_listener(getattr(self, f"on_{name}"))
        bot.http.http_trace = trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._count_response)
        trace.on_request_exception.append(self._count_exception)

    async def on_ready(self) -> None:
        """Count a new session."""
        self._metrics.up.set(1)
        self._metrics.sessions.labels(NEW).inc()

    async def on_resumed(self) -> None:
        """Count a resumed session."""
        self._metrics.up.set(1)
        self._metrics.sessions.labels(RESUMED).inc()

    async def on_disconnect(self) -> None:
        """Note the lost connection."""
        self._metrics.up.set(0)

    async def on_interaction(self, interaction: "BotInteraction") -> None:
        """Count an interaction; Discord waits three seconds for its first answer."""
        name = interaction_name(interaction)
        self._metrics.interactions.labels(name).inc()
        self._open[interaction.id] = name, time.monotonic()
        if len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)

    async def on_interaction_failed(
        self, interaction: "BotInteraction", error: BaseException
    ) -> None:
        """Count a failed interaction; the bot itself explains the error."""
        is_refusal = isinstance(error, Refused | app_commands.CheckFailure)
        outcome = REFUSED if is_refusal else FAILED if isinstance(error, Failed) else BROKEN
        self._metrics.failures.labels(interaction_name(interaction), outcome).inc()

    async def _count_response(
        self, _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        status = params.response.status
        self._metrics.answers.labels(status_class(status)).inc()
        callback = CALLBACK.search(params.url.path)
        if callback is None:
            return
        name, began = self._open.pop(int(callback[1]), ("", 0.0))
        if name and status < 300:
            self._metrics.acknowledged.observe(time.monotonic() - began)
        elif name and status == 404:
            self._metrics.failures.labels(name, LATE).inc()

    async def _count_exception(self, *_: Any) -> None:
        self._metrics.answers.labels("none").inc()
