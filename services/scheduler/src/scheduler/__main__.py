"""Wires scheduler together and runs it until SIGTERM."""

import asyncio
import contextlib
import hashlib
import sys
from functools import partial
from pathlib import Path

from scheduler import domain
from scheduler.metrics import BusMetrics, SchedulerMetrics
from scheduler.presence import Presence
from scheduler.service import Scheduler
from scheduler.settings import Settings, load
from shared import lifecycle
from shared.errors import Failed
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics, MonitorMetrics
from shared.nats.agent_requests import AgentRequests
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.monitor import LogMonitor
from shared.nats.snapshots import NatsSnapshots
from shared.nats.streams import ensure
from shared.nats.vitals import server_time, vitals
from shared.server_clock import ServerClock

KEEP_S_MAX = 5.0


async def _run(settings: Settings, life: Life) -> None:
    nc = await connect(settings.nats_url, "scheduler", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    monitor = LogMonitor(nc, "scheduler", life.ail)
    log = NatsLog(nc, monitor)
    LogMetrics("scheduler", log)
    MonitorMetrics("scheduler", monitor)
    bus, presence = NatsBus(nc), Presence(settings.silent_s_max)
    clock, metrics = ServerClock(), SchedulerMetrics()
    scheduler = Scheduler(
        log=log,
        agents=presence,
        metrics=metrics,
        words=bus,
        snapshots=NatsSnapshots(nc),
        code=_code(),
        clock=clock,
        policy=settings.policy(),
        tick_s=settings.tick_s,
        snapshot_events=settings.snapshot_events,
    )

    async def schedule() -> None:
        await monitor.until_whole()
        await scheduler.run()

    await until_first(
        life.stopping.wait(),
        monitor.watch(),
        presence.watch(bus),
        AgentRequests(nc, NatsBlobs(nc)).serve(),
        schedule(),
        clock.watch(partial(server_time, nc), life.ail, metrics.clock_skew.set),
        BusMetrics().watch(partial(vitals, nc)),
    )
    # Where the bus is gone too, the next start folds from an older snapshot.
    with contextlib.suppress(Failed, TimeoutError):
        async with asyncio.timeout(KEEP_S_MAX):
            await scheduler.keep()
    await nc.close()


def _code() -> str:
    """The name of the fold: the digest of its own text, so no change of it can be forgotten."""
    files = sorted(Path(domain.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    sys.exit(lifecycle.main("scheduler", load, _run))
