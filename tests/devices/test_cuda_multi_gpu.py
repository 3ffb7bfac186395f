"""Several GPUs as one device, as far as this can be tested without any."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.devices.access import open_gpu
from harness.devices.cuda.multi_gpu import MultiGpuDevice
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import DeviceFault

from .test_cuda_absent import needs_no_gpu


def test_each_rank_has_a_gpu_of_its_own() -> None:
    gang = MultiGpuDevice(3, is_frozen=True)
    assert [gang.of_rank(rank).place for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:2"]


def test_how_far_ranks_started_apart_is_said() -> None:
    shots = [
        CallTiming("strict", 9.0, 9.0, 9.0, is_armed=True, stagger_us=float(n)) for n in range(11)
    ]
    inputs: Any = SimpleNamespace(shots=shots)
    found = MultiGpuDevice(2, is_frozen=True).statistics(inputs)
    assert found == {"ranks": 2.0, "stagger_us": pytest.approx(9.0)}


@needs_no_gpu
def test_ranks_without_gpus_cannot_be_opened() -> None:
    with pytest.raises(DeviceFault, match="driver cannot be used"):
        open_gpu("cuda", is_frozen=True, ranks=2)
