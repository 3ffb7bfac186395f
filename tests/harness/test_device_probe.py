"""A device is probed in its own process."""

import pytest

from harness.devices.access import parse_device_info
from harness.devices.device import DeviceFault
from harness.entry import probe_device
from harness.sandbox.box import WALLS


def test_the_processor_is_known_without_looking() -> None:
    assert probe_device("cpu", WALLS).tier == "C1"
    assert probe_device("cpu", ("namespaces", "seccomp")).tier == "C2"


@pytest.mark.box
def test_a_gpu_that_is_not_here_is_a_fault_in_its_own_words() -> None:
    with pytest.raises(DeviceFault, match="'cuda' was requested"):
        probe_device("cuda", WALLS)


def test_a_program_that_dies_without_a_word_is_a_fault_too() -> None:
    with pytest.raises(DeviceFault, match="status -11"):
        parse_device_info(-11, b"", b"")


def test_the_last_line_alone_is_the_answer() -> None:
    found = parse_device_info(
        0, b'noise\n{"tier": "G2", "environment": {"gpu": "NVIDIA L4"}}\n', b"a warning"
    )
    assert (found.tier, found.environment) == ("G2", {"gpu": "NVIDIA L4"})
