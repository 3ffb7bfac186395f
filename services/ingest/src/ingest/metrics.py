"""What ingest measures of its own: how much room there is for submissions."""

from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.service.room import Queues, Room
from shared.metrics import prefix


def accounts_lost_gauge(registry: CollectorRegistry = REGISTRY) -> Gauge:
    """Whether the tables of accounts are not those that the log knows."""
    name = f"{prefix('ingest')}_accounts_lost"
    return Gauge(name, "1 while the names of participants are lost", registry=registry)


class RoomMetrics(Collector):
    """Who is taken in, who waits for that, and who was turned away; read when somebody asks."""

    def __init__(self, room: Room, queues: Queues, registry: CollectorRegistry = REGISTRY) -> None:
        self._room = room
        self._queues = queues
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The counts as they are now."""
        start = f"{prefix('ingest')}_submissions"
        yield GaugeMetricFamily(
            f"{start}_under_way", "Submissions being taken in", value=self._room.under_way
        )
        yield GaugeMetricFamily(
            f"{start}_waiting", "Submissions that wait to be taken in", value=self._room.waiting
        )
        away = CounterMetricFamily(
            f"{start}_turned_away", "Submissions refused as queue_full", labels=["for_want_of"]
        )
        away.add_metric(["room"], self._room.turned_away)
        away.add_metric(["queue"], self._queues.turned_away)
        yield away
