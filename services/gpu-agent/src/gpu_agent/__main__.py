"""Wires the GPU agent together and runs it until SIGTERM."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nacl.signing import SigningKey

from gpu_agent import gpu
from gpu_agent.domain import Machine, build_registration
from gpu_agent.metrics import AgentMetrics
from gpu_agent.runs import HarnessRuns, inspect_machine
from gpu_agent.service import Agent, Reporter
from gpu_agent.settings import Settings, load
from shared import lifecycle
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import HARNESS_CODE
from shared.lifecycle import Lifecycle, run_until_first
from shared.metrics import LogMetrics
from shared.nats.agent import AgentBlobStore, AgentBus, AgentLog, open_inbox
from shared.nats.connection import connect
from shared.signing import load_key, public_key

# The agent bounds its own drain by its settings; this is the limit on that.
DRAIN_S_MAX = 600.0
READ_EVERY_S = 15.0


async def _run(settings: Settings, life: Lifecycle, machine: Machine) -> None:
    demand = settings.demand()
    key = _load_key(settings)
    nc = await connect(settings.nats_url, "gpu-agent", closed=life.stopping.set)
    blobs = AgentBlobStore(nc, settings.id)
    runs = HarnessRuns(
        blobs, settings.data, gpu.run_canary, demand.level_min, demand.device, settings.gpu_index
    )
    runs.sweep()
    await runs.keep_code(machine.environment[HARNESS_CODE])
    await runs.warm()
    kind = gpu.gpu_type(machine.environment.get("gpu", ""))
    metrics, log = AgentMetrics(), AgentLog(nc, settings.id)
    LogMetrics("gpu-agent", log)
    agent = Agent(
        session=new_id(),
        reporter=Reporter(settings.id, log, key),
        blobs=blobs,
        bus=AgentBus(nc, settings.id),
        runs=runs,
        metrics=metrics,
        registration=build_registration(
            kind, machine, demand, gpu.gpu_details(kind, settings.gpu_index)
        ),
        began=await open_inbox(nc, settings.id),
        heartbeat_s=settings.heartbeat_s,
        drain_s=settings.drain_s,
    )
    try:
        gpu_uuid = machine.environment.get("gpu_uuid", "")
        await run_until_first(agent.serve(life.stopping), _watch_gpu(agent, metrics, gpu_uuid))
    finally:
        await runs.close()
    await nc.close()


async def _watch_gpu(agent: Agent, metrics: AgentMetrics, gpu_uuid: str) -> None:
    """Read the agent's own GPU between runs; a reading disturbs a running measurement."""
    while True:
        if agent.lease is None:
            metrics.read(
                *await asyncio.to_thread(lambda: (gpu.read_gpus(gpu_uuid), gpu.count_xids()))
            )
        await asyncio.sleep(READ_EVERY_S)


def _load_key(settings: Settings) -> SigningKey:
    """Load the agent's key, which is created at the first start in a private folder."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    return load_key(settings.sign_key)


def _main(arguments: Sequence[str]) -> int:
    """Inspect the machine before there are threads, because that forks; then run the agent.

    With `key` it only prints the public key with which the agent is enrolled.
    """
    try:
        if list(arguments) not in ([], ["key"]):
            sys.stderr.write("usage: python -m gpu_agent [key]\n")
            return 2
        settings = load()
        if arguments:
            sys.stdout.write(f"{public_key(_load_key(settings))}\n")
            return 0
        machine = inspect_machine(settings.device, settings.gpu_index)
        memory_mib = gpu.memory_mib(machine.environment, machine.memory_mib)
        machine = replace(machine, memory_mib=memory_mib, host=gpu.host_id())
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except (Failed, OSError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return lifecycle.run_service("gpu-agent", load, partial(_run, machine=machine), DRAIN_S_MAX)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
