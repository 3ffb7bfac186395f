"""Prometheus metrics of ranker."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from prometheus_client import Counter, Gauge

from ranker.service.decisions import Metrics
from shared.clock import now
from shared.event_log import RecordedEvent, platform_time
from shared.health import ScrubState
from shared.wire import UnknownEvent

START = "warpboard_ranker"
END = "SubmissionFinished"
# Outcomes that the participant caused, then those of the platform.
OUTCOMES = ("passed", "failed", "timed_out", "cancelled", "infra_failed")


class RankerMetrics(Metrics):
    """Projection lag and outcomes of submissions; `seq` returns the current checkpoint."""

    def __init__(self, seq: Callable[[], int] = lambda: 0) -> None:
        self.events = Counter(f"{START}_events", "Events folded into the read models")
        Gauge(f"{START}_projection_seq", "The last event that is folded").set_function(seq)
        self.lag_events = Gauge(f"{START}_projection_lag_events", "Events not yet folded")
        self.lag_seconds = Gauge(
            f"{START}_projection_lag_seconds",
            "Age of the newest folded event of the platform, when folded",
        )
        self.stuck = Gauge(
            f"{START}_parked_events", "1 while the projection is stopped at an event"
        )
        self.ends = Counter(f"{START}_submissions", "Submissions over, as folded", ["outcome"])
        self.retimes = Counter(
            f"{START}_retimes",
            "Noisy runs timed again, by whether the new result counts",
            ["counts"],
        )
        for outcome in OUTCOMES:
            self.ends.labels(outcome)
        for counts in ("yes", "no"):
            self.retimes.labels(counts)

    def folded(self, batch: Sequence[RecordedEvent], behind: int) -> None:
        """Count a batch that is in Postgres, and set how many events are still waiting."""
        self.events.inc(len(batch))
        self.lag_events.set(behind)
        at = platform_time(batch)
        if at is not None:
            self.lag_seconds.set((now() - at).total_seconds())
        for event in batch:
            if event.envelope.type == END:
                self.ends.labels(_outcome(event)).inc()

    def parked(self, events: int) -> None:
        """Set how many events the projection cannot fold and waits at: 0 or 1."""
        self.stuck.set(events)

    def retimed(self, *, is_replaced: bool) -> None:
        """Count a noisy run that was timed again."""
        self.retimes.labels("yes" if is_replaced else "no").inc()


def _outcome(event: RecordedEvent) -> str:
    """The outcome label of a submission; unknown outcomes become "other"."""
    with suppress(UnknownEvent):
        outcome = getattr(event.fact, "outcome", "")
        return outcome if outcome in OUTCOMES else "other"
    return "other"


DELIVERED, RETRIED, FAILED, DROPPED = "delivered", "retried", "failed", "dropped"
TRY_OUTCOMES = (DELIVERED, RETRIED, FAILED, DROPPED)


class ArchiveMetrics(Metrics):
    """Position, lag and number of seals."""

    def __init__(self) -> None:
        self.seq = Gauge("warpboard_ranker_archived_seq", "The last event that is archived")
        self.lag = Gauge("warpboard_ranker_archive_lag_events", "Events not yet archived")
        self.seals = Counter("warpboard_ranker_seals", "Seals of the hash chain written")
        self.scrub_pass_at = Gauge(
            "warpboard_ranker_scrub_pass_timestamp_seconds",
            "When the last complete pass of the scrub ended; before the first, when ranker started",
        )
        self.scrub_pass_at.set_to_current_time()
        self.archive_damaged = Gauge(
            "warpboard_ranker_archive_damaged_events",
            "Events where the scrub finds the archive's hash chain broken",
        )

        self.segment_seq = Gauge("warpboard_ranker_segment_seq", "The last event in a segment")
        self.truncated_seq = Gauge(
            "warpboard_ranker_truncated_seq", "Up to which event the stream was truncated"
        )

    def segmented(self, seq: int, truncated_seq: int) -> None:
        """Set how far segments go, and how far the stream was truncated behind them."""
        self.segment_seq.set(seq)
        self.truncated_seq.set(truncated_seq)

    def archived(self, seq: int, behind: int) -> None:
        """Everything up to `seq` is archived; `behind` events are still waiting."""
        self.seq.set(seq)
        self.lag.set(behind)

    def sealed(self) -> None:
        """The chain was sealed."""
        self.seals.inc()

    def scrubbed(self, state: ScrubState) -> None:
        """Set the state of the background scrub."""
        if state.ended_at is not None:
            self.scrub_pass_at.set(state.ended_at.timestamp())
        self.archive_damaged.set(sum(last - first + 1 for first, last in state.archive_damaged))


class HookMetrics:
    """Tries by outcome, and pending deliveries; never labelled by webhook."""

    def __init__(self) -> None:
        self.tries = Counter(
            "warpboard_ranker_webhook_tries", "Tries to tell a webhook, by outcome", ["outcome"]
        )
        self.off = Counter("warpboard_ranker_webhooks_off", "Webhooks that were switched off")
        self.waiting = Gauge("warpboard_ranker_webhook_deliveries", "Deliveries that wait")
        for outcome in TRY_OUTCOMES:
            self.tries.labels(outcome)

    def tried(self, outcome: str) -> None:
        """Count a try."""
        self.tries.labels(outcome).inc()

    def switched_off(self) -> None:
        """Count a webhook that was switched off after failing for too long."""
        self.off.inc()

    def pending(self, deliveries: int) -> None:
        """Set the number of pending deliveries."""
        self.waiting.set(deliveries)
