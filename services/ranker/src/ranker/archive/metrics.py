"""What operators watch of the archive."""

from prometheus_client import Counter, Gauge


class ArchiveMetrics:
    """How far it is, how far behind, and how often it was sealed."""

    def __init__(self) -> None:
        self.seq = Gauge("warpboard_ranker_archived_seq", "The last event that is archived")
        self.lag = Gauge("warpboard_ranker_archive_lag_events", "Events not yet archived")
        self.seals = Counter("warpboard_ranker_seals", "Seals of the hash chain written")

    def archived(self, seq: int, behind: int) -> None:
        """Everything up to `seq` is archived, and so many events still wait."""
        self.seq.set(seq)
        self.lag.set(behind)

    def sealed(self) -> None:
        """The chain was signed."""
        self.seals.inc()
