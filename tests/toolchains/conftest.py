"""Fixtures of the toolchain tests: compilers, or a skip that says what is missing."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import command


@pytest.fixture
def memory() -> Iterator[int]:
    """A memory of the supervisor's for a worker to write into."""
    descriptor = os.memfd_create("result", os.MFD_CLOEXEC)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def gxx() -> str:
    """The C++ compiler."""
    return _required("g++")


@pytest.fixture
def nvcc() -> str:
    """The CUDA C++ compiler, which needs no GPU."""
    return _required("nvcc")


@pytest.fixture
def hipcc() -> str:
    """The compiler of HIP, which needs no GPU."""
    return _required("hipcc")


@pytest.fixture
def cuda_wheel() -> Path:
    """The folder of CUDA in NVIDIA's wheels, whose parts are of one version."""
    for folder in map(Path, command._cuda_wheels()):
        if (folder / "bin/nvcc").is_file():
            return folder
    pytest.skip("CUDA's wheels are not here: make test-cuda installs them")


@pytest.fixture
def nvrtc() -> str:
    """The library that compiles CUDA kernels, which needs no GPU."""
    library = command.find_nvrtc()
    if library is None:
        pytest.skip("libnvrtc is not here: pip install nvidia-cuda-nvrtc")
    return library


def _required(name: str) -> str:
    path = shutil.which(name, path=command.search_path())
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path
