"""What operators watch of the bot; never who used it, nor for what."""

from collections.abc import Callable
from datetime import datetime

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from shared.clock import now
from shared.event_log import Recorded
from shared.metrics import prefix
from shared.outbox import Act

# Three seconds after a command Discord takes no answer any more.
ACKNOWLEDGED_S = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0)
HOWS = NEW, RESUMED = "new", "resumed"
# The platform's or our no; no answer of the platform; a mistake of ours; nobody heard it in time.
OUTCOMES = REFUSED, FAILED, BROKEN, LATE = "refused", "failed", "broken", "late"
# Of these Discord counts ten thousand in ten minutes, and then hears nothing from the address.
INVALID = (401, 403, 429)
CLASSES = ("2xx", "4xx", "5xx")
NONE = "none"


def status_class(status: int) -> str:
    """A status as a label: the class, but those that lead to a ban by themselves.

    >>> status_class(204), status_class(404), status_class(429)
    ('2xx', '4xx', '429')
    """
    return str(status) if status in INVALID else f"{status // 100}xx"


class EdgeMetrics:
    """The connection, what people ask, what Discord answers, what waits to be told."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        start = prefix("discord-edge")

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{start}_{name}", text, labels, registry=registry)

        self._up = Gauge(f"{start}_gateway_up", "1 while connected to Discord", registry=registry)
        self._begun = counter("gateway_sessions", "Connections to Discord, by how it began", "how")
        self._asked = counter("interactions", "Commands used, buttons pressed and such", "command")
        self._failed = counter(
            "interactions_failed", "Those that came to nothing", "command", "outcome"
        )
        self._acknowledged = Histogram(
            f"{start}_acknowledgement_seconds",
            "From an interaction to the answer that Discord waits for",
            buckets=ACKNOWLEDGED_S,
            registry=registry,
        )
        self._answers = counter("rest_answers", "What Discord answered", "status")
        self._followed = Gauge(
            f"{start}_followed_submissions", "Submissions that are told of", registry=registry
        )
        self._told = counter("posts_told", "Events of the log that were acted on")
        self._telling: datetime | None = None
        waiting = Gauge(
            f"{start}_post_waiting_seconds", "Age of the event being told", registry=registry
        )
        waiting.set_function(self._waiting_s)
        for how in HOWS:
            self._begun.labels(how)
        for status in (*CLASSES, *map(str, INVALID), NONE):
            self._answers.labels(status)

    def follow(self, count: Callable[[], int]) -> None:
        """Ask there how many submissions are told of."""
        self._followed.set_function(count)

    def connected(self, how: str) -> None:
        """A session with Discord is there, new or resumed."""
        self._up.set(1)
        self._begun.labels(how).inc()

    def disconnected(self) -> None:
        """It is not."""
        self._up.set(0)

    def asked(self, command: str) -> None:
        """Somebody used a command, or a part of a message."""
        self._asked.labels(command).inc()

    def failed(self, command: str, outcome: str) -> None:
        """It came to nothing."""
        self._failed.labels(command, outcome).inc()

    def acknowledged(self, after_s: float) -> None:
        """Discord has the first answer to an interaction."""
        self._acknowledged.observe(max(0.0, after_s))

    def answered(self, status: int | None) -> None:
        """Discord answered a request, or did not."""
        self._answers.labels(NONE if status is None else status_class(status)).inc()

    def telling(self, act: Act) -> Act:
        """The same act, watched: it waits for Discord for as long as that is away."""

        async def watched(recorded: Recorded, nonce: str) -> None:
            self._telling = recorded.envelope.at
            try:
                await act(recorded, nonce)
            finally:
                self._telling = None
            self._told.inc()

        return watched

    def _waiting_s(self) -> float:
        at = self._telling
        return 0.0 if at is None else max(0.0, (now() - at).total_seconds())
