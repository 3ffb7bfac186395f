"""CUDA kernels without host code: compiled for an absent GPU, launched on a stand-in."""

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.build import command
from harness.worker import native, programs
from harness.worker.native import CubinKernel
from harness.worker.protocol import SubmissionFailure

from .builds import built, contents, ordered

CU = """\
//!WARPBOARD compiler: nvrtc
//!WARPBOARD launch: grid=(outputs[0].numel() + 255) // 256, block=256
extern "C" __global__ void custom_kernel(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
"""

# Stands in for the driver's library, which needs a GPU: it writes down what it is asked.
DRIVER = """\
#include <cstdio>
#include <cstring>
static char said[1000];
extern "C" const char *asked() { return said; }
extern "C" int cuModuleLoadData(void **module, const void *image) {
    *module = (void *)0x1111;
    return memcmp(image, "cubin", 5) ? 200 : 0;
}
extern "C" int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)0x123456789abc;
    return module == (void *)0x1111 && !strcmp(name, "custom_kernel") ? 0 : 500;
}
extern "C" int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **values, void **extra) {
    snprintf(said, sizeof said, "[%u, %u, %u, %u, %u, %u, %u, %d, %lld, %lld, %lld, %g, %d]",
             x, y, z, bx, by, bz, shared, function == (void *)0x123456789abc && !stream && !extra,
             *(long long *)values[0], *(long long *)values[1], *(long long *)values[2],
             *(double *)values[3], *(bool *)values[4]);
    return bx > 1024 ? 1 : 0;
}
"""


@pytest.fixture
def driver(tmp_path: Path, gxx: str) -> str:
    """The path of a driver that records its calls."""
    path = tmp_path / "libcuda.so.1"
    (tmp_path / "driver.cpp").write_text(DRIVER)
    line = [gxx, "-shared", "-fPIC", str(tmp_path / "driver.cpp"), "-o", str(path)]
    subprocess.run(line, check=True, timeout=60)
    return str(path)


def test_a_kernel_becomes_a_cubin(tmp_path: Path, nvrtc: str, memory: int) -> None:
    made = built(tmp_path, "submission.cu", CU, memory, architecture="sm_90a", nvrtc=nvrtc)
    cubin, ptx = native.split_build_result(made)
    assert cubin.startswith(b"\x7fELF")
    assert b"custom_kernel" in cubin
    assert b".target sm_90a" in ptx


def test_the_driver_loads_the_cubin_of_a_build_result(
    memory: int, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its driver accepts what begins with "cubin" and ends there.
    monkeypatch.setattr(CubinKernel.__init__, "__defaults__", (driver,))
    os.write(memory, b"cubin\0PTX\0.version 9.2")
    assert isinstance(native.load_built_kernel(memory, "grid=1, block=1"), CubinKernel)


def test_a_kernel_may_include_the_headers_of_cuda(tmp_path: Path, nvrtc: str, memory: int) -> None:
    if not command.find_cuda_includes():
        pytest.skip("the headers of CUDA are not here")
    flags = "//!WARPBOARD flags: -std=c++17 -DN=4 --use_fast_math -maxrregcount=64\n"
    source = (
        f"{flags}{CU}#include <cuda_fp16.h>\n#include <cuda/std/array>\nstatic_assert(N == 4);\n"
    )
    order = ordered(tmp_path, "submission.cu", source, architecture="sm_90a", nvrtc=nvrtc)
    programs.run_build_order(order, memory)
    assert contents(memory).startswith(b"\x7fELF")


def test_what_nvrtc_refuses_is_told(
    tmp_path: Path, nvrtc: str, memory: int, capfd: pytest.CaptureFixture[str]
) -> None:
    source = CU.replace("x[i] + 1", "nothing")
    with pytest.raises(SubmissionFailure, match='identifier "nothing" is undefined') as caught:
        built(tmp_path, "submission.cu", source, memory, architecture="sm_90a", nvrtc=nvrtc)
    assert caught.value.kind == "compile_error"
    assert caught.value.text.startswith("submission.cu(5)")
    first, *_, last = capfd.readouterr().out.splitlines()
    assert first.startswith("$ nvrtc --gpu-architecture=sm_90a ")
    assert first.endswith(" submission.cu")
    assert last == "exit code 6 (NVRTC_ERROR_COMPILATION)"


def test_a_library_that_is_not_there_is_named(tmp_path: Path, memory: int) -> None:
    with pytest.raises(SubmissionFailure, match="NVRTC cannot be loaded here"):
        built(tmp_path, "submission.cu", CU, memory, architecture="sm_90a", nvrtc="/no/lib.so")


def test_a_kernel_is_launched_as_its_source_asks(driver: str, torch: Any) -> None:
    x, y = torch.zeros(1000), torch.zeros(1000)
    launch = "grid=(outputs[0].numel() + 255) // 256, block=(256, 2), shared=scalars[0]"
    more = "args=(2.5, outputs[0].numel() > 999)"
    call = CubinKernel(b"cubin", f"{launch}, {more}", driver).bind([x], [y])
    call(b"[64]")
    library = ctypes.CDLL(driver)
    library.asked.restype = ctypes.c_char_p
    assert json.loads(library.asked()) == [
        *(4, 1, 1, 256, 2, 1, 64, 1),
        *(x.data_ptr(), y.data_ptr(), 64, 2.5, 1),
    ]


@pytest.mark.parametrize(
    ("launch", "text"),
    [("grid=1, block=2048", "cuLaunchKernel failed with CUDA error 1")],
)
def test_a_launch_that_fails_is_told(driver: str, torch: Any, launch: str, text: str) -> None:
    call = CubinKernel(b"cubin", launch, driver).bind([torch.zeros(1)], [torch.zeros(1)])
    with pytest.raises(SubmissionFailure, match=text):
        call(b"[1, 2.0, false]")


def test_a_scalar_that_is_no_number_is_refused(driver: str, torch: Any) -> None:
    call = CubinKernel(b"cubin", "grid=1, block=1", driver).bind([], [torch.zeros(1)])
    with pytest.raises(SubmissionFailure, match="cannot receive the scalar 'relu'"):
        call(b'["relu"]')


def test_a_cubin_of_another_gpu_is_told(driver: str) -> None:
    with pytest.raises(SubmissionFailure, match="cuModuleLoadData failed with CUDA error 200"):
        CubinKernel(b"other", "grid=1, block=1", driver)


def test_a_launch_that_cannot_be_read_is_told(driver: str) -> None:
    with pytest.raises(SubmissionFailure, match="the kernel cannot be launched"):
        CubinKernel(b"cubin", "grid=1, block=", driver)


def test_without_a_driver_nothing_is_launched(memory: int) -> None:
    os.write(memory, b"cubin")
    with pytest.raises(
        SubmissionFailure, match=r"the kernel cannot be launched|cuModuleLoadData failed"
    ):
        native.load_built_kernel(memory, "grid=1, block=1")
