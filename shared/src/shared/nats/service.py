"""A service's connection to NATS, with its log."""

from typing import NamedTuple

from nats.aio.client import Client

from shared.bus_keys.login import BusLogin
from shared.lifecycle import Lifecycle
from shared.metrics import LogMetrics
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import LogMonitor, MonitorMetrics, ensure_streams


class ServiceLog(NamedTuple):
    """A service's connection to NATS, its log, and the monitor of that log."""

    nc: Client
    log: NatsLog
    monitor: LogMonitor


async def open_service_log(
    service: str, login: BusLogin, life: Lifecycle, replicas: int
) -> ServiceLog:
    """Connect a service, create missing streams, and register the metrics of its log.

    `life` stops when the connection is closed, and reports the health of the log. The monitor has
    to be watched. Errors: Failed.
    """
    nc = await connect(login, service, closed=life.stopping.set)
    await ensure_streams(nc, replicas)
    monitor = LogMonitor(nc, service, life.report_unhealthy)
    log = NatsLog(nc, monitor)
    LogMetrics(service, log)
    CertificateMetrics(service, login, nc)
    MonitorMetrics(service, monitor)
    return ServiceLog(nc, log, monitor)
