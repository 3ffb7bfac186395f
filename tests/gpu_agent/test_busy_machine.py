"""On a machine that is too busy a ranked run is not timed, and any other run is."""

import os
from contextlib import ExitStack

import pytest

from harness.sandbox.crowding import crowding
from shared.events import RunCompleted, RunFailed
from tests.gpu_agent.world import HONEST, World, serving
from tests.support.processes import busy_process
from tests.support.waits import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]


async def test_a_ranked_run_on_a_busy_machine_is_handed_back_as_noisy(world: World) -> None:
    cores = sorted(os.sched_getaffinity(0))
    async with serving(world.agent()):
        world.runs[0].quiet_wait_s = 0.2
        with ExitStack() as others:
            for number in range(3 * (os.cpu_count() or 1)):
                others.enter_context(busy_process(cores[number % len(cores)]))
            await eventually(lambda: crowding().is_crowded)
            await world.order(HONEST, "r1", mode="ranked")
            failed = (await world.until("r1", "RunFailed")).fact
            await world.order(HONEST, "r2", mode="test")
            passed = (await world.until("r2", "RunCompleted")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "noisy"
    assert failed.reason.startswith("the machine is busy: ")
    assert "runnable threads on" in failed.reason
    assert failed.reason.endswith("the run was not timed")
    assert isinstance(passed, RunCompleted)
    assert passed.verdict == "passed"
