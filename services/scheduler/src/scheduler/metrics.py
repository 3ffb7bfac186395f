"""What operators watch of scheduler."""

from collections import Counter as Count

from prometheus_client import Counter, Gauge

from scheduler.domain.board import Board
from scheduler.domain.rules import Move, World


class SchedulerMetrics:
    """The queue, the agents and what was decided."""

    def __init__(self) -> None:
        self.depth = Gauge("warpboard_scheduler_queue_depth_jobs", "Jobs waiting", ["gpu"])
        self.running = Gauge("warpboard_scheduler_running_jobs", "Jobs on an agent", ["gpu"])
        self.agents = Gauge("warpboard_scheduler_agents", "Agents alive", ["state"])
        self.open = Gauge("warpboard_scheduler_open_submissions", "Submissions not over")
        self.overdue = Gauge("warpboard_scheduler_overdue_submissions", "Open past the deadline")
        self.lag = Gauge("warpboard_scheduler_lag_events", "Events not yet folded")
        self.events = Counter("warpboard_scheduler_events", "Events said", ["type"])
        self.conflicts = Counter("warpboard_scheduler_append_conflicts", "Appends lost to another")
        self.gpus: set[str] = set()

    def looked(self, board: Board, world: World, behind: int) -> None:
        """The board and the world were looked at."""
        jobs = [job for job in board.jobs.values() if not job.is_over]
        waiting = Count(job.gpu for job in jobs if job.run is None)
        running = Count(job.gpu for job in jobs if job.run is not None)
        self.gpus |= waiting.keys() | running.keys()
        for gpu in self.gpus:
            self.depth.labels(gpu).set(waiting[gpu])
            self.running.labels(gpu).set(running[gpu])
        free = sum(offer.is_free for offer in world.offers.values())
        self.agents.labels("free").set(free)
        self.agents.labels("busy").set(len(world.offers) - free)
        self.open.set(len(board.submissions))
        late = sum(one.deadline_at < world.now for one in board.submissions.values())
        self.overdue.set(late)
        self.lag.set(behind)

    def said(self, move: Move) -> None:
        """A move is in the log."""
        for say in move:
            self.events.labels(type(say.fact).__name__).inc()

    def conflicted(self) -> None:
        """Somebody else moved first."""
        self.conflicts.inc()
