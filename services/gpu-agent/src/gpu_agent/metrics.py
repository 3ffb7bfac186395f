"""The agent's metrics."""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from gpu_agent.domain import GpuReading
from shared.events import Fact, RunCompleted, RunFailed

# From the shortest stage to the longest budget of one.
STAGE_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class AgentMetrics:
    """Runs by how they ended, and how long runs and their stages took."""

    def __init__(self) -> None:
        prefix = "warpboard_gpu_agent"
        self.runs = Counter(f"{prefix}_runs", "Runs ended", ["verdict"])
        self.items = Counter(f"{prefix}_items", "Items of evaluations ended", ["verdict"])
        self.failures = Counter(f"{prefix}_run_failures", "Runs that the platform failed", ["code"])
        self.took = Histogram(
            f"{prefix}_run_duration_seconds",
            "Stages of runs, and `all`",
            ["stage"],
            buckets=STAGE_S,
        )
        self.current = Gauge(f"{prefix}_current_runs", "Runs in hand")
        self.slots = Gauge(f"{prefix}_slots", "How many runs the agent takes at once")
        self.quarantined = Gauge(f"{prefix}_quarantined", "1 while the machine is not well")

        gpu = f"{prefix}_gpu"
        self.use = Gauge(f"{gpu}_use_ratio", "Use of a GPU between runs", ["gpu"])
        self.memory = Gauge(f"{gpu}_memory_used_bytes", "Memory in use between runs", ["gpu"])
        self.temperature = Gauge(f"{gpu}_temperature_celsius", "Temperature", ["gpu"])
        self.clock = Gauge(f"{gpu}_clock_hertz", "Clock of the SMs between runs", ["gpu"])
        self.xids = Gauge(f"{gpu}_xids", "Xid errors in the kernel's log, -1 if it is not ours")
        self.failures.labels("platform")
        for verdict in ("passed", "infra_failed", "lost"):
            self.runs.labels(verdict)
        self.items.labels("passed")
        self.took.labels("all")

    def said(self, fact: Fact) -> None:
        """Count a fact of a run that was appended."""
        if isinstance(fact, RunCompleted | RunFailed):
            for stage in fact.stages:
                self.took.labels(stage.stage).observe(stage.took_s)
        if isinstance(fact, RunCompleted):
            self.runs.labels(fact.verdict).inc()
            for verdict in fact.chunk.verdicts if fact.chunk is not None else ():
                self.items.labels(verdict).inc()
            self.took.labels("all").observe(fact.took_s)
        elif isinstance(fact, RunFailed):
            self.runs.labels("infra_failed").inc()
            self.failures.labels(fact.code).inc()

    def lost(self) -> None:
        """Count a run whose lease was over before it had a result."""
        self.runs.labels("lost").inc()

    def read(self, readings: Sequence[GpuReading], xids: int | None) -> None:
        """Update the gauges of the GPUs."""
        for reading in readings:
            for gauge, value in (
                (self.use, reading.use_ratio),
                (self.memory, reading.memory_bytes),
                (self.temperature, reading.temperature_celsius),
                (self.clock, reading.clock_hertz),
            ):
                if value is not None:
                    gauge.labels(reading.index).set(value)
        self.xids.set(-1 if xids is None else xids)

    def looked(self, *, runs: int, slots: int, is_well: bool) -> None:
        """Update the agent's state, at each heartbeat: its runs, and how many it takes at once."""
        self.current.set(runs)
        self.slots.set(slots)
        self.quarantined.set(not is_well)
