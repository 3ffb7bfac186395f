"""Wires the scheduler together and runs it until SIGTERM, or checks its settings."""

import asyncio
import contextlib
import sys
from contextlib import AbstractContextManager
from functools import partial

from scheduler.domain.fold import evolve
from scheduler.domain.state import SchedulerState
from scheduler.metrics import BusMetrics, SchedulerMetrics
from scheduler.service import SNAPSHOT, Presence, Scheduler, ServerClock
from scheduler.settings import Settings, load
from shared import lifecycle
from shared.errors import Failed
from shared.lifecycle import Lifecycle, run_until_first
from shared.nats.agent_requests import AgentRequests
from shared.nats.blobs import NatsBlobStore, NatsSnapshots
from shared.nats.bus import NatsBus, read_bus_status, server_time
from shared.nats.reader_requests import ReaderRequests, log_state
from shared.nats.service import open_service_log
from shared.settings import print_problems
from shared.signed_snapshots import SignedSnapshots
from shared.snapshots import FoldSnapshots, fold_digest
from shared.tracing import SpanRecorder

KEEP_S_MAX = 5.0


async def _run(settings: Settings, life: Lifecycle) -> None:
    nc, log, monitor = await open_service_log(
        "scheduler", settings.bus_login, life, settings.replicas
    )
    bus, presence = NatsBus(nc), Presence(settings.silent_s_max)
    clock, metrics = ServerClock(), SchedulerMetrics()
    scheduler = Scheduler(
        log=log,
        agents=presence,
        metrics=metrics,
        words=bus,
        snapshots=FoldSnapshots(
            log,
            SignedSnapshots(NatsSnapshots(nc), settings.bus_login),
            SNAPSHOT,
            fold_digest(evolve),
            SchedulerState,
        ),
        clock=clock,
        policy=settings.policy(),
        tick_s=settings.tick_s,
        spans=life.spans,
    )
    requests = AgentRequests(nc, NatsBlobStore(nc), log, scheduler.find_run, metrics.machines)
    scheduler.has_listened = requests.has_listened
    scheduler.misconduct = presence.misconduct = requests.misconduct

    readers = ReaderRequests(nc, log, partial(log_state, monitor))

    async def schedule() -> None:
        await monitor.until_whole()
        await scheduler.run()

    await run_until_first(
        life.stopping.wait(),
        monitor.watch(),
        presence.watch(bus),
        requests.serve(),
        readers.serve(),
        schedule(),
        clock.watch(partial(server_time, nc), life.report_unhealthy, metrics.clock_skew.set),
        BusMetrics().watch(partial(read_bus_status, nc)),
    )
    # If the bus is gone too, the next start folds from an older snapshot.
    with contextlib.suppress(Failed, TimeoutError):
        async with asyncio.timeout(KEEP_S_MAX):
            await scheduler.keep()
    await nc.close()


def _open_spans(settings: Settings) -> AbstractContextManager[SpanRecorder]:
    return lifecycle.open_recorder("scheduler", is_on=settings.tracing)


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(print_problems(load))
    sys.exit(lifecycle.run_service("scheduler", load, _run, record=_open_spans))
