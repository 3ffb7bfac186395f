"""Wires scheduler together and runs it until SIGTERM."""

import sys

from scheduler.metrics import SchedulerMetrics
from scheduler.presence import Presence
from scheduler.service import Scheduler
from scheduler.settings import Settings, load
from shared import lifecycle
from shared.lifecycle import Life, until_first
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure


async def _run(settings: Settings, life: Life) -> None:
    nc = await connect(settings.nats_url, "scheduler", closed=life.stopping.set)
    await ensure(nc)
    presence = Presence(settings.silent_s_max)
    scheduler = Scheduler(NatsLog(nc), presence, SchedulerMetrics(), settings.tick_s)
    await until_first(life.stopping.wait(), presence.watch(NatsBus(nc)), scheduler.run())
    await nc.close()


if __name__ == "__main__":
    sys.exit(lifecycle.main("scheduler", load, _run))
