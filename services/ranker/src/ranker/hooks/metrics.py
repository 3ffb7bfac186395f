"""What operators watch of webhooks."""

from prometheus_client import Counter, Gauge

DELIVERED, RETRIED, FAILED, DROPPED = "delivered", "retried", "failed", "dropped"
OUTCOMES = (DELIVERED, RETRIED, FAILED, DROPPED)


class HookMetrics:
    """Tries by what came of them, and what waits; never which webhook."""

    def __init__(self) -> None:
        self.tries = Counter(
            "warpboard_ranker_webhook_tries", "Tries to tell a webhook, by outcome", ["outcome"]
        )
        self.off = Counter("warpboard_ranker_webhooks_off", "Webhooks that were switched off")
        self.waiting = Gauge("warpboard_ranker_webhook_deliveries", "Deliveries that wait")
        for outcome in OUTCOMES:
            self.tries.labels(outcome)

    def tried(self, outcome: str) -> None:
        """A try is over."""
        self.tries.labels(outcome).inc()

    def switched_off(self) -> None:
        """A webhook took nothing for too long."""
        self.off.inc()

    def pending(self, deliveries: int) -> None:
        """So many wait."""
        self.waiting.set(deliveries)
