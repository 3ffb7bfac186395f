"""Which GPU type an agent offers, and what it knows of its machine."""

from pathlib import Path

import pytest

from gpu_agent.gpu import CPU, count_xids, gpu_details, gpu_type, host_id, memory_mib
from gpu_agent.runs import inspect_machine
from shared.errors import Failed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB MIG 3g.20gb", "A100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000"),
        ("NVIDIA RTX PRO 6000 Blackwell", "RTXPRO6000"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "RX7900"),
        ("", "CPU"),
        ("NVIDIA", "CPU"),
    ],
)
def test_the_type_is_the_model_without_its_maker(name: str, expected: str) -> None:
    assert gpu_type(name) == expected


@pytest.mark.box
@pytest.mark.parametrize("device", ["cuda", "hip", "tpu"])
def test_an_agent_of_a_device_that_is_not_here_says_so(device: str) -> None:
    with pytest.raises(Failed, match=f"the device {device} does not work here: .*{device!r}"):
        inspect_machine(device)


def test_the_errors_of_the_driver_are_counted_in_the_kernels_log(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("4,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus\n")
    assert count_xids(str(log)) == 1
    log.write_text("6,1,2,-;usb 1-1: new device\n")
    assert count_xids(str(log)) == 0
    assert count_xids(str(tmp_path / "none")) is None


def test_every_agent_of_a_machine_says_the_same_host() -> None:
    assert host_id() == host_id()
    assert len(host_id()) in (0, 16)


def test_without_a_gpu_the_memory_is_the_machines() -> None:
    assert memory_mib({}, 4096) == 4096


def test_an_agent_of_a_gpu_says_which_one_of_its_host_it_has() -> None:
    assert gpu_details("H200", 3) == {"gpu_index": "3"}
    assert "gpu_index" not in gpu_details(CPU, 3)
