"""The device that is timed in the submission's process, as far as it needs no GPU."""

import pytest

from harness.devices.access import LocalDevice
from harness.devices.device import DeviceFault
from harness.time.policy import policy_for


@pytest.mark.parametrize("device", [LocalDevice("cuda"), LocalDevice("hip")])
def test_a_machine_without_such_a_gpu_is_at_fault(device: LocalDevice) -> None:
    with pytest.raises(DeviceFault):
        device.prepare()


def test_an_amd_gpu_is_timed_by_the_policy_of_a_gpu() -> None:
    assert policy_for("hip", "ranked").looks == policy_for("cuda", "ranked").looks
    assert policy_for("hip", "ranked").device == "hip"
