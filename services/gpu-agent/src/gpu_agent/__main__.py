"""Wires gpu-agent together and runs it until SIGTERM."""

import sys
from functools import partial

from gpu_agent.domain import Machine, registration
from gpu_agent.gpu import CPU, canary, gpu_type, gpus_not_offered
from gpu_agent.metrics import AgentMetrics
from gpu_agent.runs import HarnessRuns, machine
from gpu_agent.service import Agent
from gpu_agent.settings import Settings, load
from shared import lifecycle
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.lifecycle import Life
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure

# The agent bounds its own drain by its settings; this is the bound on that.
DRAIN_S_MAX = 600.0


async def _run(settings: Settings, life: Life, found: Machine) -> None:
    wanted = settings.wanted()
    nc = await connect(settings.nats_url, "gpu-agent", closed=life.stopping.set)
    await ensure(nc)
    blobs = NatsBlobs(nc)
    runs = HarnessRuns(blobs, settings.data, canary, wanted.level_min, wanted.device)
    runs.sweep()
    await runs.warm()
    gpu = gpu_type(found.environment.get("gpu", ""))
    agent = Agent(
        name=settings.id,
        session=new_id(),
        log=NatsLog(nc),
        blobs=blobs,
        bus=NatsBus(nc),
        runs=runs,
        metrics=AgentMetrics(),
        registration=registration(gpu, found, wanted, gpus_not_offered() if gpu == CPU else {}),
        heartbeat_s=settings.heartbeat_s,
        drain_s=settings.drain_s,
    )
    try:
        await agent.serve(life.stopping)
    finally:
        await runs.close()
    await nc.close()


def _main() -> int:
    """Looks at the machine before there are threads, for that forks; then lives."""
    try:
        here = machine(load().device)
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return lifecycle.main("gpu-agent", load, partial(_run, found=here), DRAIN_S_MAX)


if __name__ == "__main__":
    sys.exit(_main())
