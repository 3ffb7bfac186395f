"""Finds out what this machine can compile and run.

Versions come from package metadata and from the programs themselves; nothing heavy is imported. The
agent does not offer what is missing here.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_TOOL_S_MAX = 10.0

# The first installed package of a row gives the version.
_PACKAGES = {
    "torch": ("torch",),
    "triton": ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-windows"),
    "jax": ("jax",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "numpy": ("numpy",),
    "numba": ("numba",),
    "cute_dsl": ("nvidia-cutlass-dsl",),
}

# Where a program's output of `--version` contains the version.
_PROGRAMS = {
    "g++": r"\)\s+(\d+\.[\d.]+)",
    "gcc": r"\)\s+(\d+\.[\d.]+)",
    "ninja": r"(\d+(?:\.\d+)+)",
    "nvcc": r"release [\d.]+, V([\d.]+)",
    "hipcc": r"HIP version: ([\d.]+)",
    "ncu": r"Version ([\d.]+)",
    "nsys": r"version ([\d.]+)",
}

# Folders of programs, in search order.
_PROGRAM_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/cuda/bin",
    "/opt/rocm/bin",
    "/opt/nvidia/nsight-compute",
)
_CUDA_FOLDERS = ("/usr/local/cuda", "/opt/cuda")
_CUBLAS_VERSION = re.compile(r"#define CUBLAS_VER_(?:MAJOR|MINOR|PATCH)\s+(\d+)")

# A file that identifies a folder of headers, and folders where they usually are.
_HEADERS = {
    "cutlass": ("cutlass/version.h", ("/usr/local/cutlass/include", "/opt/cutlass/include")),
    "thunderkittens": (
        "kittens.cuh",
        ("/usr/local/ThunderKittens/include", "/opt/ThunderKittens/include"),
    ),
}
# Where NVIDIA's wheel nvidia-cutlass has the headers of CUTLASS.
_WHEEL_HEADERS = "cutlass_library/source/include"
_CUTLASS_VERSION = re.compile(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)")


def probe_toolchains(path: str | None = None) -> dict[str, str]:
    """Return the versions of what is installed, by name; "present" if a version is unknown.

    Programs are looked up on `path`, by default where workers find them.
    """
    versions = {}
    for name, distributions in _PACKAGES.items():
        if version := _first(filter(None, map(_package_version, distributions))):
            versions[name] = version
    for name, pattern in _PROGRAMS.items():
        program = shutil.which(name, path=path or search_path())
        if program and (output := _read_version_output(program)) is not None:
            match = re.search(pattern, output)
            versions[name] = match[1] if match else "present"
    if library := find_nvrtc():
        versions["nvrtc"] = _nvrtc_version(library)
    if header := _find_cublas():
        version = ".".join(_CUBLAS_VERSION.findall(header.read_text(errors="replace")))
        versions["cublas"] = version or "present"
    for name, folder in find_includes().items():
        versions[name] = "present"
        if name == "cutlass":
            text = Path(folder, "cutlass/version.h").read_text(encoding="utf-8", errors="replace")
            versions[name] = ".".join(_CUTLASS_VERSION.findall(text)) or "present"
    return dict(sorted(versions.items()))


def find_program(name: str) -> str:
    """Return the path of a program of workers and builders, "" if there is none."""
    return shutil.which(name, path=search_path()) or ""


def search_path() -> str:
    """Return the PATH of workers and builders."""
    wheels = (f"{folder}/bin" for folder in _cuda_wheels())
    return os.pathsep.join([str(Path(sys.executable).parent), *_PROGRAM_FOLDERS, *wheels])


def find_cuobjdump() -> str:
    """Return the path of a cuobjdump with the nvdisasm that it needs beside it, "" if there is none.

    Triton brings both.
    """
    triton = [f"{folder}/triton/backends/nvidia/bin" for folder in sys.path if folder]
    for folder in map(Path, (*search_path().split(os.pathsep), *triton)):
        if all(os.access(folder / name, os.X_OK) for name in ("cuobjdump", "nvdisasm")):
            return str(folder / "cuobjdump")
    return ""


def find_includes() -> dict[str, str]:
    """Return the folders of the installed header-only libraries, by name."""
    folders_by_name = {}
    wheels = [f"{folder}/{_WHEEL_HEADERS}" for folder in sys.path if folder]
    for name, (marker_file, folders) in _HEADERS.items():
        searched = (*folders, *wheels)
        if folder := _first(folder for folder in searched if Path(folder, marker_file).is_file()):
            folders_by_name[name] = folder
    return folders_by_name


def compiler_environment(architecture: str = "") -> dict[str, str]:
    """Return the environment that compilers need; the architecture is a GPU's."""
    # Without KINETO_LOG_LEVEL, torch's profiler writes into the submission's log. Without
    # HIP_PLATFORM, hipcc starts nvcc where both are installed.
    variables = {"PATH": search_path(), "MAX_JOBS": "4", "KINETO_LOG_LEVEL": "6"}
    variables["HIP_PLATFORM"] = "amd"
    if cuda := _find_cuda():
        variables["CUDA_HOME"] = cuda
        # nvcc looks in lib64, but the wheels have lib alone.
        variables["LIBRARY_PATH"] = f"{cuda}/lib"
        if number := re.fullmatch(r"sm_(\d+)(\d[af]?)", architecture):
            # Only one architecture, because each costs the same compile time.
            variables["TORCH_CUDA_ARCH_LIST"] = f"{number[1]}.{number[2]}"
    return variables


def tool_folders() -> tuple[str, ...]:
    """Return the folders beyond the system's own that a box must show for these tools."""
    folders = {*find_includes().values(), "/opt/cuda", "/opt/rocm", "/opt/nvidia"}
    paths = [path for folder in sorted(folders) if (path := Path(folder)).is_dir()]
    return tuple(str(path) for path in paths if not path.is_relative_to("/usr"))


def find_nvrtc() -> str | None:
    """Return the path of libnvrtc: of a package of this interpreter, else of the system's CUDA."""
    searches = [Path(folder).glob("nvidia/*/lib/libnvrtc.so*") for folder in sys.path if folder]
    searches += [Path(folder, "lib64").glob("libnvrtc.so*") for folder in _CUDA_FOLDERS]
    for search in searches:
        if libraries := [library for library in sorted(search) if ".alt." not in library.name]:
            return str(libraries[0])
    return None


def _cuda_wheels() -> list[str]:
    """Return the folders of CUDA wheels of this interpreter."""
    paths = (path for folder in sys.path if folder for path in Path(folder).glob("nvidia/cu[0-9]*"))
    return sorted(map(str, paths))


def _find_cuda() -> str:
    """Return the folder of the CUDA whose nvcc compiles, "" if there is none."""
    folders = (*_CUDA_FOLDERS, *_cuda_wheels())
    return _first(folder for folder in folders if Path(folder, "bin/nvcc").is_file()) or ""


def _find_cublas() -> Path | None:
    """Return the header with the version of a cuBLAS that can be linked.

    nvcc finds no header and no library of another CUDA than its own.
    """
    if cuda := _find_cuda():
        header = Path(cuda, "include/cublas_api.h")
        if header.is_file() and any(Path(cuda).glob("lib*/libcublas.so")):
            return header
    return None


def find_cuda_includes() -> tuple[str, ...]:
    """Return the folders of CUDA's headers, which nvcc knows and NVRTC must be given."""
    roots = [str(Path(library).parents[1])] if (library := find_nvrtc()) else []
    tops = (*roots, *_CUDA_FOLDERS)
    folders = [Path(top, "include", subfolder) for top in tops for subfolder in ("", "cccl")]
    marker_files = ("cuda_fp16.h", "cuda/std/version")
    return tuple(
        str(folder) for folder in folders if any((folder / name).is_file() for name in marker_files)
    )


def processor_features() -> str:
    """Return what code for this processor depends on: machine and features.

    Cached code for one processor is useless and harmful on another.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return " ".join([os.uname().machine, *sorted(flags[1].split() if flags else [])])


def _read_version_output(path: str) -> str | None:
    """Return a program's version output; None if it does not run, so it is not offered."""
    try:
        process = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (process.stdout + process.stderr).decode(errors="replace")


def _package_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvrtc_version(library: str) -> str:
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        if version := _package_version(distribution):
            return version
    return Path(library).resolve().name.partition(".so.")[2] or "present"


def _first(items: Iterable[str]) -> str | None:
    return next(iter(items), None)
