"""Wires the GPU agent together and runs it until SIGTERM, or for one job."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from gpu_agent import gpu
from gpu_agent.domain import Machine, build_registration
from gpu_agent.metrics import AgentMetrics
from gpu_agent.runs import HarnessRuns, inspect_machine, run_canary
from gpu_agent.service import Agent, Reporter
from gpu_agent.settings import Settings, load, load_agent_key
from shared import lifecycle
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.events import EPHEMERAL, HARNESS_CODE
from shared.lifecycle import Lifecycle, run_until_first
from shared.metrics import LogMetrics
from shared.nats.agent import AgentBlobStore, AgentBus, AgentLog, open_inbox
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.tracing import SpanRecorder

# The agent bounds its own drain by DRAIN_S; this only has to be longer.
DRAIN_S_MAX = 600.0
# What the current run gets on SIGTERM.
DRAIN_S = 8.0
READ_EVERY_S = 15.0
# How long an agent with --once waits for its job.
ONCE_WAIT_S = 120.0
ONCE = "--once"
USAGE = """usage: python -m gpu_agent [check | key | --once]

Run jobs until SIGTERM. With `check`, print what is wrong with the settings. With `key`, print the
public key of the agent. With `--once`, run one job
and leave. Its exit code is 0 after a verdict, 1 after a failure, 2 if a setting is wrong, 3 if no
job came within two minutes, 4 if the job ended without a verdict.
"""
NO_JOB, NO_VERDICT = 3, 4


async def _run(
    settings: Settings, life: Lifecycle, machine: Machine, once_codes: list[int] | None = None
) -> None:
    """Run the agent; with `once_codes` for one job, whose exit code is added there."""
    demand = settings.demand()
    key = load_agent_key(settings)
    nc = await connect(settings.bus_login, "gpu-agent", closed=life.stopping.set)
    blobs = AgentBlobStore(nc, settings.id)
    runs = HarnessRuns(
        blobs,
        settings.data,
        run_canary,
        level_min=demand.level_min,
        device=demand.device,
        gpu_index=settings.gpu_index,
        quiet_wait_s=settings.quiet_wait_s,
        slots=machine.slots,
        spares=settings.spares,
    )
    runs.sweep()
    await runs.keep_code(machine.environment[HARNESS_CODE])
    await runs.warm()
    kind = gpu.gpu_type(machine.environment.get("gpu", ""))
    metrics, log = AgentMetrics(), AgentLog(nc, settings.id)
    LogMetrics("gpu-agent", log)
    CertificateMetrics("gpu-agent", settings.bus_login, nc)
    agent = Agent(
        session=new_id(),
        reporter=Reporter(settings.id, log, key),
        blobs=blobs,
        bus=AgentBus(nc, settings.id),
        runs=runs,
        metrics=metrics,
        registration=build_registration(
            kind,
            machine,
            demand,
            gpu.gpu_details(kind, settings.gpu_index)
            | ({} if once_codes is None else {EPHEMERAL: "true"}),
        ),
        began=await open_inbox(nc, settings.id),
        heartbeat_s=settings.heartbeat_s,
        drain_s=DRAIN_S,
        spans=life.spans,
    )
    try:
        gpu_uuid = machine.environment.get("gpu_uuid", "")
        serving = (
            agent.serve(life.stopping)
            if once_codes is None
            else agent.serve_once(life.stopping, ONCE_WAIT_S)
        )
        await run_until_first(serving, _watch_gpu(agent, metrics, gpu_uuid))
    finally:
        await runs.close()
    await nc.close()
    if once_codes is not None and not agent.has_verdict:
        once_codes.append(NO_VERDICT if agent.has_order.is_set() else NO_JOB)


async def _watch_gpu(agent: Agent, metrics: AgentMetrics, gpu_uuid: str) -> None:
    """Read the agent's own GPU between runs; a reading disturbs a running measurement."""
    while True:
        if not agent.leases:
            metrics.read(
                *await asyncio.to_thread(lambda: (gpu.read_gpus(gpu_uuid), gpu.count_xids()))
            )
        await asyncio.sleep(READ_EVERY_S)


def _open_spans(settings: Settings) -> AbstractContextManager[SpanRecorder]:
    return lifecycle.open_recorder("gpu-agent", is_on=settings.tracing, is_waiting=True)


def main(arguments: Sequence[str]) -> int:
    """Inspect the machine before there are threads, because that forks; then run the agent.

    Return the exit code.
    """
    once_codes: list[int] | None = [] if list(arguments) == [ONCE] else None
    try:
        if list(arguments) not in ([], [ONCE]):
            sys.stderr.write(USAGE)
            return 2
        settings = load()
        # An agent for one job has no other to overlap with.
        build_slots = 0 if once_codes is not None else settings.build_slots
        machine = inspect_machine(settings.device, settings.gpu_index, build_slots)
        memory_mib = gpu.memory_mib(machine.environment, machine.memory_mib)
        machine = replace(machine, memory_mib=memory_mib, host=gpu.host_id())
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return 2
    except (Failed, OSError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    run = partial(_run, machine=machine, once_codes=once_codes)
    code = lifecycle.run_service("gpu-agent", load, run, DRAIN_S_MAX, record=_open_spans)
    return code or next(iter(once_codes or ()), 0)
