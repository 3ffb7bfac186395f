"""What operators watch of an agent."""

from prometheus_client import Counter, Histogram

from shared.events import Fact, RunCompleted


class AgentMetrics:
    """Runs by how they ended, and how long they took."""

    def __init__(self) -> None:
        self.runs = Counter("warpboard_gpu_agent_runs", "Runs ended", ["verdict"])
        self.took = Histogram("warpboard_gpu_agent_run_duration_seconds", "From order to verdict")

    def ended(self, fact: Fact) -> None:
        """A run is over."""
        if isinstance(fact, RunCompleted):
            self.runs.labels(fact.verdict).inc()
            self.took.observe(fact.took_s)
        else:
            self.runs.labels("infra_failed").inc()
