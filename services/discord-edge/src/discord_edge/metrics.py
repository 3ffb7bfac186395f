"""The bot's metrics; they never contain who used it or what for."""

from datetime import datetime

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from shared.clock import now
from shared.event_log import RecordedEvent
from shared.metrics import metric_prefix
from shared.outbox import EffectHandler

# Discord takes no answer later than three seconds after a command.
ACKNOWLEDGED_S = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0)
HOWS = NEW, RESUMED = "new", "resumed"
# Refused by the platform or by us; no answer of the platform; a bug; answered too late.
OUTCOMES = REFUSED, FAILED, BROKEN, LATE = "refused", "failed", "broken", "late"
# Discord bans an address after ten thousand of these in ten minutes.
INVALID = (401, 403, 429)
CLASSES = ("2xx", "4xx", "5xx")
NONE = "none"


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

        self.up = Gauge(f"{start}_gateway_up", "1 while connected to Discord", registry=registry)
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
        self.tracked = Gauge(
            f"{start}_followed_submissions", "Submissions that are told of", registry=registry
        )
        self._announced = counter("posts_told", "Events of the log that were acted on")
        self._announcing_since: datetime | None = None
        waiting = Gauge(
            f"{start}_post_waiting_seconds", "Age of the event being told", registry=registry
        )
        waiting.set_function(self._waiting_s)
        for how in HOWS:
            self.sessions.labels(how)
        for status in (*CLASSES, *map(str, INVALID), NONE):
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
