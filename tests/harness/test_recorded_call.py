"""What one recorded call of a submission says about where its time went."""

import importlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.worker.server import record_call
from tests.support.processes import busy_process

# So many time slices that the other process has about half of them.
CALL_S = 0.1


@pytest.fixture
def shared_core() -> Iterator[None]:
    """The core of this thread, which is busy with another process."""
    cores = os.sched_getaffinity(0)
    core = min(cores)
    os.sched_setaffinity(0, [core])
    try:
        with busy_process(core):
            yield
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("shared_core")
def test_a_recorded_call_does_not_count_what_it_waits_for_a_core() -> None:
    torch: Any = importlib.import_module("torch")
    data, output = torch.rand(1000), torch.empty(1000)
    took_us: list[float] = []

    def call() -> None:
        began = time.perf_counter()
        while time.perf_counter() - began < CALL_S:
            os.sched_yield()
        output.copy_(data)
        took_us.append(1e6 * (time.perf_counter() - began))

    memory = os.memfd_create("record")
    record_call(call, memory)
    record = json.loads(os.pread(memory, 4096, 0))
    os.close(memory)
    assert [name for name, _, _ in record["operators"]] == ["aten::copy_"]
    assert record["total_us"] < 0.75 * took_us[0]
