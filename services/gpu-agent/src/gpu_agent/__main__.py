"""Wires gpu-agent together and runs it until SIGTERM."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nacl.signing import SigningKey

from gpu_agent import gpu
from gpu_agent.domain import Machine, registration
from gpu_agent.metrics import AgentMetrics
from gpu_agent.runs import HarnessRuns, machine
from gpu_agent.service.agent import Agent
from gpu_agent.service.lease import Reporter
from gpu_agent.settings import Settings, load
from shared import lifecycle
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import HARNESS_CODE
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics
from shared.nats.agent import AgentBlobs, AgentBus, AgentLog, open_inbox
from shared.nats.connection import connect
from shared.signing import load_key, public_key

# The agent bounds its own drain by its settings; this is the bound on that.
DRAIN_S_MAX = 600.0
READ_EVERY_S = 15.0


async def _run(settings: Settings, life: Life, found: Machine) -> None:
    wanted = settings.wanted()
    key = _key(settings)
    nc = await connect(settings.nats_url, "gpu-agent", closed=life.stopping.set)
    blobs = AgentBlobs(nc, settings.id)
    runs = HarnessRuns(
        blobs, settings.data, gpu.canary, wanted.level_min, wanted.device, settings.gpu_index
    )
    runs.sweep()
    await runs.keep_code(found.environment[HARNESS_CODE])
    await runs.warm()
    kind = gpu.gpu_type(found.environment.get("gpu", ""))
    metrics, log = AgentMetrics(), AgentLog(nc, settings.id)
    LogMetrics("gpu-agent", log)
    agent = Agent(
        session=new_id(),
        reporter=Reporter(settings.id, log, key),
        blobs=blobs,
        bus=AgentBus(nc, settings.id),
        runs=runs,
        metrics=metrics,
        registration=registration(kind, found, wanted, gpu.details(kind, settings.gpu_index)),
        began=await open_inbox(nc, settings.id),
        heartbeat_s=settings.heartbeat_s,
        drain_s=settings.drain_s,
    )
    try:
        own = found.environment.get("gpu_uuid", "")
        await until_first(agent.serve(life.stopping), _look_on(agent, metrics, own))
    finally:
        await runs.close()
    await nc.close()


async def _look_on(agent: Agent, metrics: AgentMetrics, own: str) -> None:
    """Read one's own GPU now and then, between runs: a reading disturbs what is being timed."""
    while True:
        if agent.lease is None:
            metrics.read(*await asyncio.to_thread(lambda: (gpu.readings(own), gpu.xids())))
        await asyncio.sleep(READ_EVERY_S)


def _key(settings: Settings) -> SigningKey:
    """The agent's key, made at its first start in a folder that is closed to others."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    return load_key(settings.sign_key)


def _look(settings: Settings) -> Machine:
    found = machine(settings.device, settings.gpu_index)
    memory_mib = gpu.memory_mib(found.environment, found.memory_mib)
    return replace(found, memory_mib=memory_mib, host=gpu.host())


def _settings(arguments: Sequence[str]) -> Settings:
    if list(arguments) not in ([], ["key"]):
        raise Refused("bad_arguments", "usage: python -m gpu_agent [key]")
    return load()


def _main(arguments: Sequence[str]) -> int:
    """Looks at the machine before there are threads, for that forks; then lives.

    With `key` it only prints the public key that the agent is enrolled with.
    """
    try:
        settings = _settings(arguments)
        if arguments:
            sys.stdout.write(f"{public_key(_key(settings))}\n")
            return 0
        here = _look(settings)
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except (Failed, OSError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return lifecycle.main("gpu-agent", load, partial(_run, found=here), DRAIN_S_MAX)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
