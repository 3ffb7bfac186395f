"""What operators watch of ranker."""

from collections.abc import Callable, Sequence

from prometheus_client import Counter, Gauge

from shared.clock import now
from shared.event_log import Recorded
from shared.events import SubmissionFinished
from shared.wire import UnknownEvent

START = "warpboard_ranker"
# The participant's matter, then the platform's.
OUTCOMES = ("passed", "failed", "timed_out", "cancelled", "rejected", "infra_failed")
END, REJECTION = "SubmissionFinished", "SubmissionRejected"


class RankerMetrics:
    """Lag by batch, ends by outcome, whoever decided them; `seq` is the checkpoint, when asked."""

    def __init__(self, seq: Callable[[], int] = lambda: 0) -> None:
        self.events = Counter(f"{START}_events", "Events folded into the read models")
        Gauge(f"{START}_projection_seq", "The last event that is folded").set_function(seq)
        self.lag_events = Gauge(f"{START}_projection_lag_events", "Events not yet folded")
        self.lag_seconds = Gauge(
            f"{START}_projection_lag_seconds", "Age of the newest folded event, when folded"
        )
        self.stuck = Gauge(f"{START}_parked_events", "1 while the projection stands before one")
        self.ends = Counter(f"{START}_submissions", "Submissions over, as folded", ["outcome"])
        self.decisions = Counter(
            f"{START}_decisions", "Verdicts decided here, by eligibility", ["is_eligible"]
        )
        for outcome in OUTCOMES:
            self.ends.labels(outcome)

    def folded(self, batch: Sequence[Recorded], behind: int) -> None:
        """A batch is in Postgres, and so many events still wait."""
        self.events.inc(len(batch))
        self.lag_events.set(behind)
        self.lag_seconds.set((now() - batch[-1].envelope.at).total_seconds())
        for event in batch:
            if event.envelope.type in (END, REJECTION):
                self.ends.labels(_outcome(event)).inc()

    def parked(self, events: int) -> None:
        """The projection stands before so many events that it cannot fold: one or none."""
        self.stuck.set(events)

    def decided(self, end: SubmissionFinished) -> None:
        """A submission was ended."""
        self.decisions.labels("yes" if end.is_eligible else "no").inc()


def _outcome(event: Recorded) -> str:
    """How a submission ended; an outcome that we do not know is no label of ours."""
    if event.envelope.type == REJECTION:
        return "rejected"
    try:
        outcome = getattr(event.fact, "outcome", "")
    except UnknownEvent:
        outcome = ""
    return outcome if outcome in OUTCOMES else "other"
