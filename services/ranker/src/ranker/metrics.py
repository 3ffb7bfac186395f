"""What operators watch of ranker."""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge

from shared.clock import now
from shared.event_log import Recorded
from shared.events import SubmissionFinished


class RankerMetrics:
    """Lag by batch, ends by outcome."""

    def __init__(self) -> None:
        self.events = Counter("warpboard_ranker_events", "Events folded into the read models")
        self.lag_events = Gauge("warpboard_ranker_projection_lag_events", "Events not yet folded")
        self.lag_seconds = Gauge(
            "warpboard_ranker_projection_lag_seconds", "Age of the newest folded event, when folded"
        )
        self.ends = Counter("warpboard_ranker_submissions", "Submissions ended", ["outcome"])

    def folded(self, batch: Sequence[Recorded], behind: int) -> None:
        """A batch is in Postgres, and so many events still wait."""
        self.events.inc(len(batch))
        self.lag_events.set(behind)
        self.lag_seconds.set((now() - batch[-1].envelope.at).total_seconds())

    def decided(self, end: SubmissionFinished) -> None:
        """A submission was ended."""
        self.ends.labels(end.outcome).inc()
