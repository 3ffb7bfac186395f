"""Without a GPU, everything that needs one fails with a clear sentence."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.devices.access import (
    FoundGpu,
    LocalDevice,
    find_gpus,
    list_cuda_gpus,
    main,
    open_gpu,
)
from harness.devices.cuda import host
from harness.devices.cuda.device import CudaDevice, NvmlMonitor
from harness.devices.cuda.driver import Driver, Nvrtc
from harness.devices.device import DeviceFault

from .fake_driver import Machine


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


needs_no_gpu = pytest.mark.skipif(has_driver(), reason="this machine has a CUDA driver")


def test_a_library_that_is_no_driver_is_refused() -> None:
    with pytest.raises(DeviceFault, match="driver cannot be used"):
        Driver("libc.so.6")


def test_a_missing_compiler_is_named() -> None:
    with pytest.raises(DeviceFault, match="NVRTC cannot be loaded"):
        Nvrtc("/nowhere/libnvrtc.so.13")


def test_a_missing_monitor_is_named() -> None:
    with pytest.raises(DeviceFault, match="NVML cannot be loaded"):
        NvmlMonitor("GPU-1", "/nowhere/libnvidia-ml.so.1")


NVML = """
#include <string.h>
typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } process;
const char *nvmlErrorString(int status) { return "fault"; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) { return strcmp(uuid, "GPU-1"); }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *processes) {
  process own[] = {{7, 3 << 20, 0, 0}, {8, 5 << 20, 0, 0}, {9, ~0ull, 0, 0}};
  memcpy(processes, own, sizeof own);
  *count = 3;
  return 0;
}
"""


def test_memory_is_counted_by_process_and_what_is_unknown_is_not(tmp_path: Path) -> None:
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(NVML)
    compiler = shutil.which("gcc")
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-o", library, source], check=True)
    with NvmlMonitor("GPU-1", str(library)) as monitor:
        counts = [monitor.used_bytes(pids) for pids in ([], [7], [7, 8, 10], [9])]
    assert counts == [0, 3 << 20, 8 << 20, 0]


@needs_no_gpu
def test_a_machine_without_a_gpu_fails_to_prepare_one() -> None:
    with pytest.raises(DeviceFault, match="driver cannot be used"):
        CudaDevice(is_frozen=True, runs_beside=False).prepare()


@needs_no_gpu
def test_a_gpu_that_is_not_here_cannot_be_opened() -> None:
    for name, reason in {"cuda": "driver cannot be used", "hip": "built without it"}.items():
        with pytest.raises(DeviceFault, match=reason):
            open_gpu(name, is_frozen=True)


def test_a_device_of_another_name_is_no_gpu() -> None:
    with pytest.raises(DeviceFault, match="no GPU device 'tpu'"):
        open_gpu("tpu", is_frozen=True)


@needs_no_gpu
def test_a_torch_without_hip_prepares_no_amd_gpu() -> None:
    with pytest.raises(DeviceFault, match="built without it"):
        LocalDevice("hip").prepare()


def test_pipes_that_nobody_listens_on_are_no_daemon(tmp_path: Path) -> None:
    assert not host.is_mps_running(str(tmp_path))


@needs_no_gpu
def test_a_machine_without_a_driver_has_no_gpus() -> None:
    assert find_gpus() == []
    with pytest.raises(SystemExit, match="driver cannot be used"):
        main([])


def test_gpus_have_the_numbers_that_agents_count_by() -> None:
    machine = Machine("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla T4")
    numbers = {
        "GPU-01010101-0101-0101-0101-010101010101": 0,
        "GPU-00000000-0000-0000-0000-000000000000": 1,
    }
    assert list_cuda_gpus(machine, numbers) == [
        FoundGpu("cuda", 0, "NVIDIA A100-SXM4-80GB"),
        FoundGpu("cuda", 1, "NVIDIA H100 80GB HBM3"),
        FoundGpu("cuda", 2, "Tesla T4"),
    ]
