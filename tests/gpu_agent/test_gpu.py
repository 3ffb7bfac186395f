"""Which GPU type an agent offers."""

import pytest

from gpu_agent.gpu import gpu_type
from gpu_agent.runs import machine
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


@pytest.mark.parametrize("device", ["cuda", "hip", "tpu"])
def test_an_agent_of_a_device_that_is_not_here_says_so(device: str) -> None:
    with pytest.raises(Failed, match=f"the device {device} does not work here: .*{device!r}"):
        machine(device)
