"""A pool of supervisors: its runs go on at once, and one at a time is timed."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.devices.lock import DeviceTurn, open_device_lock
from harness.entry import Harness, Progress, RunReport, RunRequest, StageFinished, Started
from harness.pool import HarnessPool, count_fitting_slots, count_slots
from harness.sandbox.host import sandbox_bytes_max
from harness.sandbox.linux import cpu_s, descendants
from tests.support.harness import HONEST, Host, Warm
from tests.support.processes import name_of
from tests.support.waits import eventually

pytestmark = [pytest.mark.box, pytest.mark.asyncio(loop_scope="module")]

WAIT_S_MAX = 60.0
# It looks for the lock where a process can look: its own files, and those of every process.
FINDER = """
import os

def find_locks():
    found = []
    for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["self"]:
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue
            if "warpboard-device" in target or "warpboard-turnstile" in target:
                found.append(f"/proc/{pid}/fd/{descriptor}")
    return found
"""
SEARCHING = (
    FINDER
    + """
def custom_kernel(data):
    locks = find_locks()
    if locks:
        raise RuntimeError(f"the lock is in reach: {locks}")
    data[1].copy_(data[0])
    return data[1]
"""
)


# The headers of the standard library take a second at least.
SLOW_BUILD = """
#include <bits/stdc++.h>
#include "warpboard.h"

extern "C" int custom_kernel(const wb_tensor *inputs, int inputs_count, wb_tensor *outputs,
                             int outputs_count, const char *scalars_json, void *stream) {
  const float *from = (const float *)inputs[0].data;
  long count = 1;
  for (int i = 0; i < inputs[0].ndim; i++) count *= inputs[0].shape[i];
  std::copy(from, from + count, (float *)outputs[0].data);
  return 0;
}
"""
PAUSE_S = 0.5


def find_compilers() -> list[int]:
    """The compilers that run beneath this process."""
    return [pid for pid in descendants(os.getpid()) if name_of(pid) == "cc1plus"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[HarnessPool]:
    """A pool of two supervisors, which all tests of this module use."""
    async with HarnessPool(2) as pool:
        await pool.warm()
        yield pool


def make_request(folder: Path, warm: Warm, name: str, source: str, mode: str) -> RunRequest:
    """A request with folders of its own."""
    home = folder / name
    home.mkdir()
    return Host(home, warm).request(source, mode)


async def run(pool: HarnessPool, request: RunRequest, told: Any = None) -> RunReport:
    """A run in the pool."""

    async def listen(message: Started | Progress | StageFinished) -> None:
        if told is not None:
            told(message)

    async with pool.lend() as harness:
        return await harness.evaluate(request, listen)


def outsider(pool: HarnessPool) -> DeviceTurn:
    """Another run of the same pool, as far as the lock can tell."""
    return DeviceTurn(open_device_lock(pool.device_lock), WAIT_S_MAX)


async def test_the_runs_of_a_pool_check_at_once(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    other = outsider(pool)
    other.take(is_alone=False)
    requests = [make_request(tmp_path, warm, name, HONEST, "test") for name in "abc"]
    reports = await asyncio.gather(*(run(pool, request) for request in requests))
    assert [report.verdict for report in reports] == ["passed"] * 3
    assert pool.free_slots == 2
    other.release()


async def test_a_timed_stage_waits_until_no_check_goes_on(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    other, order = outsider(pool), []
    other.take(is_alone=False)

    def note(message: object) -> None:
        match message:
            case StageFinished(stage="check"):
                order.append("released")
                other.release()
            case Progress(stage="time"):
                order.append("timed")

    report = await run(pool, make_request(tmp_path, warm, "a", HONEST, "benchmark"), note)
    assert (report.verdict, order[:2]) == ("passed", ["released", "timed"])
    assert report.usage["device_wait_s"] > 0


async def test_nothing_is_built_on_a_processor_that_times(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    other, order = outsider(pool), []
    other.take(is_alone=True)

    def note(message: object) -> None:
        match message:
            case Started():
                order.append("released")
                other.release()
            case StageFinished(stage="build"):
                order.append("built")

    report = await run(pool, make_request(tmp_path, warm, "a", HONEST, "test"), note)
    assert (report.verdict, order) == ("passed", ["released", "built"])
    assert report.usage["device_wait_s"] > 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing here")
async def test_a_build_is_paused_while_another_run_has_the_processor_alone(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    request = Host(tmp_path, warm).request(SLOW_BUILD, suffix=".cpp")
    task = asyncio.create_task(run(pool, request))
    compilers = await eventually(find_compilers, within_s=WAIT_S_MAX)
    other = outsider(pool)
    other.take(is_alone=True)
    used_s = {pid: cpu_s(pid) for pid in compilers}
    began = time.monotonic()
    # A compiler would have used some of this time.
    while time.monotonic() < began + PAUSE_S:
        assert {pid: cpu_s(pid) for pid in find_compilers()} == used_s
    other.release()
    report = await task
    assert report.verdict == "passed"
    assert report.usage["device_wait_s"] > PAUSE_S / 2


async def test_a_run_that_needs_more_memory_than_its_share_is_alone(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    other, order = outsider(pool), []
    other.take(is_alone=False)

    def note(message: object) -> None:
        match message:
            case Started():
                order.append("released")
                other.release()
            case StageFinished(stage="build"):
                order.append("built")

    share_mib = sandbox_bytes_max(pool.slots) // 1024**2
    host = Host(tmp_path, warm, told_besides={"memory_mib": share_mib + 1})
    report = await run(pool, host.request(HONEST), note)
    assert (report.verdict, order) == ("passed", ["released", "built"])
    # It had to wait for a run that checks, which another one would not.
    assert report.usage["device_wait_s"] > 0


async def test_a_pool_restores_what_ended_while_no_run_is_timed(pool: HarnessPool) -> None:
    async with pool.lend() as harness:
        await harness.close()
    other = outsider(pool)
    other.take(is_alone=True)
    restoring = asyncio.create_task(pool.restore())
    await asyncio.sleep(0)
    assert not harness.is_ready
    other.release()
    await restoring
    assert all(each.is_ready for each in pool.harnesses)


async def test_a_cancelled_run_leaves_the_device_to_others(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    is_timed = asyncio.Event()

    def note(message: object) -> None:
        if isinstance(message, Progress) and message.stage == "time":
            is_timed.set()

    request = make_request(tmp_path, warm, "a", HONEST, "benchmark")
    task = asyncio.create_task(run(pool, request, note))
    async with asyncio.timeout(WAIT_S_MAX):
        await is_timed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    other = outsider(pool)
    other.take(is_alone=True)
    other.release()
    assert pool.free_slots == 2


async def test_the_death_of_a_supervisor_costs_no_other_run_anything(
    pool: HarnessPool, tmp_path: Path, warm: Warm
) -> None:
    async def run_and_kill(harness: Harness, request: RunRequest) -> RunReport:
        async def kill(message: Started | Progress | StageFinished) -> None:
            if isinstance(message, Started):
                assert harness.pid is not None
                os.kill(harness.pid, signal.SIGKILL)

        return await harness.evaluate(request, kill)

    requests = [make_request(tmp_path, warm, name, HONEST, "test") for name in "abcd"]
    async with pool.lend() as harness:
        killed, survivor = await asyncio.gather(
            run_and_kill(harness, requests[0]), run(pool, requests[1])
        )
    assert (killed.failure_code, survivor.verdict) == ("supervisor", "passed")
    later = await asyncio.gather(*(run(pool, request) for request in requests[2:]))
    assert [report.verdict for report in later] == ["passed"] * 2


async def test_no_box_reaches_the_lock(pool: HarnessPool, tmp_path: Path, warm: Warm) -> None:
    names: dict[str, Any] = {}
    exec(FINDER, names)  # noqa: S102  (the same search finds it here)
    assert names["find_locks"]()
    report = await run(pool, make_request(tmp_path, warm, "a", SEARCHING, "test"))
    assert report.verdict == "passed", report.reason


async def test_a_pool_has_a_slot_at_least() -> None:
    assert count_slots("cpu") == len(os.sched_getaffinity(0))
    # As many as there are cores, or on a GPU two, if the memory of their boxes fits.
    assert count_slots("cuda") == max(1, min(2, count_fitting_slots("cuda")))
    with pytest.raises(ValueError, match="slots is 0"):
        HarnessPool(0)


async def test_a_closed_pool_lends_nothing() -> None:
    closed = HarnessPool(2)
    await closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        async with closed.lend():
            pass
