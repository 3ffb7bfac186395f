"""A profile lists the GPU kernels of a build result: what each uses, its PTX and its SASS."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.build import command
from harness.worker import programs
from harness.worker.submission import pack_built
from shared.presentation.run_files import read_kernel_usage
from tests.problems.loaded_problem import PROBLEMS

from .builds import CPP, built, contents

SOLUTION = PROBLEMS / "axpy/solutions/correct/cuda_float4.cu"
NVRTC_SOLUTION = PROBLEMS / "axpy/solutions/correct/nvrtc_kernel.cu"
OPTIONS = ["--dump-resource-usage", "--dump-ptx", "--dump-sass"]


@pytest.fixture
def texts() -> Iterator[list[int]]:
    """A memory for each text."""
    memories = [os.memfd_create("text", os.MFD_CLOEXEC) for _ in OPTIONS]
    yield memories
    for memory in memories:
        os.close(memory)


@pytest.fixture
def cuobjdump(monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that reads the files of CUDA's compilers."""
    path = command.find_cuobjdump()
    if not path:
        pytest.skip("cuobjdump and nvdisasm are not here: make install installs them")
    # The box of a builder ends with its environment, this process does not.
    monkeypatch.setenv("PATH", os.environ["PATH"])
    return path


def listed(
    folder: Path,
    cuobjdump: str,
    memory: int,
    texts: list[int],
    *,
    is_native: bool,
    is_nvrtc: bool = False,
) -> list[str]:
    """Return the three texts about a build result."""
    order: dict[str, Any] = {
        "cuobjdump": cuobjdump,
        "environment": {"PATH": str(Path(cuobjdump).parent)},
        "folder": str(folder / "kernels"),
        "options": OPTIONS,
        "is_native": is_native,
        "is_nvrtc": is_nvrtc,
    }
    programs.list_kernels(order, [memory, *texts])
    return [contents(text).decode() for text in texts]


@pytest.mark.long
@pytest.mark.usefixtures("nvcc")
def test_a_cuda_file_shows_registers_ptx_and_sass(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int]
) -> None:
    built(tmp_path, "submission.cu", SOLUTION.read_text(), memory, architecture="sm_90a")
    usage, ptx, sass = listed(tmp_path, cuobjdump, memory, texts, is_native=True)
    (kernel,) = read_kernel_usage(usage.encode())
    assert "axpy" in kernel.kernel
    assert kernel.registers > 0
    assert (kernel.shared_bytes, kernel.stack_bytes, kernel.local_bytes) == (0, 0, 0)
    assert ".target sm_90a" in ptx
    assert f".entry {kernel.kernel}(" in ptx
    assert f"Function : {kernel.kernel}" in sass
    assert "EXIT" in sass
    assert str(tmp_path) not in usage + ptx + sass


def test_a_file_for_nvrtc_shows_registers_ptx_and_sass(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int], nvrtc: str
) -> None:
    source = NVRTC_SOLUTION.read_text()
    built(tmp_path, "submission.cu", source, memory, architecture="sm_90a", nvrtc=nvrtc)
    usage, ptx, sass = listed(tmp_path, cuobjdump, memory, texts, is_native=True, is_nvrtc=True)
    (kernel,) = read_kernel_usage(usage.encode())
    assert kernel.kernel == "custom_kernel"
    assert kernel.registers > 0
    assert ".target sm_90a" in ptx
    assert ".entry custom_kernel(" in ptx
    assert "\0" not in ptx
    assert "Function : custom_kernel" in sass
    assert "EXIT" in sass


@pytest.mark.long
@pytest.mark.usefixtures("nvcc")
def test_spilled_registers_and_shared_memory_are_counted(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int]
) -> None:
    source = """\
#include "warpboard.h"
extern "C" __global__ void spilling(float *y, int n) {
    __shared__ float shared[256];
    float own[64];
    for (int i = 0; i < 64; i++) own[i] = y[i * n];
    for (int i = 0; i < n; i++) own[(i * n) % 64] += own[(i + n) % 64];
    shared[threadIdx.x] = own[n % 64];
    __syncthreads();
    y[threadIdx.x] = shared[255 - threadIdx.x];
}
int custom_kernel(const wb_tensor *, int, wb_tensor *, int, const char *, void *) { return 0; }
"""
    built(tmp_path, "submission.cu", source, memory, architecture="sm_80")
    usage, *_ = listed(tmp_path, cuobjdump, memory, texts, is_native=True)
    (kernel,) = read_kernel_usage(usage.encode())
    assert kernel.shared_bytes >= 1024
    assert kernel.stack_bytes + kernel.local_bytes >= 256


@pytest.mark.long
@pytest.mark.usefixtures("nvcc")
def test_compile_caches_of_a_python_file_are_searched(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int]
) -> None:
    cache, packed = tmp_path / "cache", os.memfd_create("packed", os.MFD_CLOEXEC)
    cache.mkdir()
    built(tmp_path, "submission.cu", SOLUTION.read_text(), memory, architecture="sm_80")
    (cache / "axpy.so").write_bytes(contents(memory))
    (cache / "axpy.ptx").write_text("// of Triton's cache\n")
    try:
        assert pack_built(str(cache), packed)
        usage, ptx, sass = listed(tmp_path, cuobjdump, packed, texts, is_native=False)
    finally:
        os.close(packed)
    assert len(read_kernel_usage(usage.encode())) == 1
    assert ptx.startswith("// of Triton's cache\n")
    assert "EXIT" in sass


@pytest.mark.usefixtures("gxx")
def test_without_gpu_kernels_the_texts_are_empty(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int]
) -> None:
    built(tmp_path, "submission.cpp", CPP, memory)
    assert listed(tmp_path, cuobjdump, memory, texts, is_native=True) == ["", "", ""]


def test_what_is_no_pack_has_no_kernels(
    tmp_path: Path, memory: int, cuobjdump: str, texts: list[int]
) -> None:
    os.write(memory, b"no pack at all")
    assert listed(tmp_path, cuobjdump, memory, texts, is_native=False) == ["", "", ""]
