"""What operators watch of an agent."""

from prometheus_client import Counter, Gauge, Histogram

from shared.events import Fact, RunCompleted, RunFailed, RunStageFinished

# From a compiled-in answer to the longest budget of a stage.
STAGE_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class AgentMetrics:
    """Runs by how they ended, and how long they and each of their stages took."""

    def __init__(self) -> None:
        prefix = "warpboard_gpu_agent"
        self.runs = Counter(f"{prefix}_runs", "Runs ended", ["verdict"])
        self.failures = Counter(f"{prefix}_run_failures", "Runs that the platform failed", ["code"])
        self.took = Histogram(
            f"{prefix}_run_duration_seconds",
            "Stages of runs, and `all`",
            ["stage"],
            buckets=STAGE_S,
        )
        self.busy = Gauge(f"{prefix}_busy", "1 while a run is in hand")
        self.quarantined = Gauge(f"{prefix}_quarantined", "1 while the machine is not well")

    def said(self, fact: Fact) -> None:
        """A fact of a run is in the log."""
        if isinstance(fact, RunStageFinished):
            self.took.labels(fact.stage).observe(fact.took_s)
        elif isinstance(fact, RunCompleted):
            self.runs.labels(fact.verdict).inc()
            self.took.labels("all").observe(fact.took_s)
        elif isinstance(fact, RunFailed):
            self.runs.labels("infra_failed").inc()
            self.failures.labels(fact.code).inc()

    def lost(self) -> None:
        """A lease was over before its run had a result."""
        self.runs.labels("lost").inc()

    def looked(self, *, is_busy: bool, is_well: bool) -> None:
        """How the agent is, at each heartbeat."""
        self.busy.set(is_busy)
        self.quarantined.set(not is_well)
