"""What a box sees of a GPU."""

from pathlib import Path

from harness.devices.cuda.host import gpu_requirements, list_gpus

HOST = (
    "/dev/nvidia0",
    "/dev/nvidia1",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-caps/nvidia-cap1",
    "/sys",
)


def test_a_box_sees_its_own_gpu_and_no_other() -> None:
    found = gpu_requirements((1, "GPU-1"), HOST)
    assert "/dev/nvidia1" in found.devices
    assert "/dev/nvidia0" not in found.devices
    assert found.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_a_slice_of_a_gpu_needs_its_capabilities_too() -> None:
    assert "/dev/nvidia-caps/nvidia-cap1" not in gpu_requirements((0, "GPU-1"), HOST).devices
    assert "/dev/nvidia-caps/nvidia-cap1" in gpu_requirements((0, "MIG-1"), HOST).devices


def test_a_missing_node_is_named_with_its_remedy() -> None:
    assert gpu_requirements((2, "GPU-2"), HOST).missing == (
        "/dev/nvidia2 does not exist: run nvidia-modprobe on the host",
    )
    assert gpu_requirements((0, "GPU-0"), HOST).missing == ()


def test_the_pipes_of_mps_are_shown_where_they_are_named() -> None:
    found = gpu_requirements((0, "GPU-0"), HOST, mps={"CUDA_MPS_PIPE_DIRECTORY": "/run/mps/pipe"})
    assert "/run/mps/pipe" in found.read_only
    assert found.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/run/mps/pipe"


def test_the_gpus_of_a_host_are_known_without_opening_one(tmp_path: Path) -> None:
    for folder, said in {
        "0000:02:00.0": "GPU UUID: \t GPU-b\nDevice Minor: \t 1\n",
        "0000:01:00.0": "GPU UUID: \t GPU-a\nDevice Minor: \t 0\n",
        "0000:03:00.0": "GPU UUID: \t GPU-c\n",
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "information").write_text(said)
    assert list_gpus(tmp_path) == [(0, "GPU-a"), (1, "GPU-b")]
    assert list_gpus(tmp_path / "nowhere") == []
