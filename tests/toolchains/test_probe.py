"""A machine reports exactly what it has."""

import os
import sys
from pathlib import Path

import pytest

from harness.build import command
from harness.build.command import find_includes


def _script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_what_is_installed_has_its_version() -> None:
    import importlib.metadata

    found = command.probe_toolchains()
    assert found["torch"] == importlib.metadata.version("torch")
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert "jax" not in found or importlib.metadata.version("jax") == found["jax"]


def test_probing_imports_nothing_heavy() -> None:
    import subprocess

    code = (
        "from harness.build import command; command.probe_toolchains()\n"
        "import sys; print(*sys.modules)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert not {"torch", "numpy", "triton", "jax", "cupy"} & set(said)


@pytest.mark.parametrize(
    ("name", "said", "version"),
    [
        ("g++", "g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"),
        ("gcc", "gcc (GCC) 14.2.1 20250110", "14.2.1"),
        ("ninja", "1.13.0.git.kitware.jobserver-1", "1.13.0"),
        ("nvcc", "Cuda compilation tools, release 13.0, V13.0.88", "13.0.88"),
        ("hipcc", "HIP version: 6.4.43482-0f2d60242", "6.4.43482"),
        ("ncu", "Version 2025.3.1.0 (build 36398880) (public-release)", "2025.3.1.0"),
        ("nsys", "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0", "2025.3.2.474"),
        ("nsys", "words without a number", "present"),
    ],
)
def test_a_program_tells_its_version(tmp_path: Path, name: str, said: str, version: str) -> None:
    _script(tmp_path, name, f"echo '{said}'")
    assert command.probe_toolchains(path=str(tmp_path))[name] == version


def test_a_program_that_does_not_run_is_not_offered(tmp_path: Path) -> None:
    _script(tmp_path, "nvcc", "echo release 13.0, V13.0.88; exit 1")
    (tmp_path / "g++").write_text("not a program")
    (tmp_path / "g++").chmod(0o755)
    assert not {"nvcc", "g++"} & set(command.probe_toolchains(path=str(tmp_path)))


def test_headers_are_found_by_their_marker_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cutlass").mkdir()
    version = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n"
    (tmp_path / "cutlass/version.h").write_text(version)
    (tmp_path / "kittens.cuh").write_text("")
    folders = (str(tmp_path / "nowhere"), str(tmp_path))
    headers = {
        "cutlass": ("cutlass/version.h", folders),
        "thunderkittens": ("kittens.cuh", folders),
        "absent": ("absent.h", folders),
    }
    monkeypatch.setattr(command, "_HEADERS", headers)
    found = command.probe_toolchains()
    assert (found["cutlass"], found["thunderkittens"]) == ("4.2.1", "present")
    assert find_includes() == dict.fromkeys(("cutlass", "thunderkittens"), str(tmp_path))
    assert str(tmp_path) in command.tool_folders()


def test_the_headers_of_cutlass_are_found_in_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cutlass_library/source/include"
    (folder / "cutlass").mkdir(parents=True)
    (folder / "cutlass/version.h").write_text("#define CUTLASS_MAJOR 4\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setitem(command._HEADERS, "cutlass", ("cutlass/version.h", ()))
    assert find_includes()["cutlass"] == str(folder)
    assert str(folder) in command.tool_folders()


@pytest.mark.parametrize("has_header", [True, False])
def test_cublas_is_offered_if_nvcc_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_header: bool
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / "bin").mkdir(parents=True)
        _script(folder / "bin", "nvcc", "exit 1")
    with_cublas = first if has_header else second
    for name in ("include", "lib64"):
        (with_cublas / name).mkdir()
    versions = "#define CUBLAS_VER_MAJOR 13\n#define CUBLAS_VER_MINOR 4\n"
    (with_cublas / "include/cublas_api.h").write_text(versions)
    (with_cublas / "lib64/libcublas.so").touch()
    monkeypatch.setattr(command, "_CUDA_FOLDERS", (str(first), str(second)))
    assert command.probe_toolchains().get("cublas") == ("13.4" if has_header else None)


def test_workers_find_the_programs_that_were_probed() -> None:
    folders = command.compiler_environment()["PATH"].split(os.pathsep)
    assert folders[0] == str(Path(sys.executable).parent)
    assert {"/usr/local/bin", "/usr/bin"} <= set(folders)


def test_a_processor_is_told_by_its_features() -> None:
    machine, *features = command.processor_features().split()
    assert machine == os.uname().machine
    assert features == sorted(features)
