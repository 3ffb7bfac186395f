"""What this machine can compile and run: looked for, never assumed.

Versions come from packages' own records and from the programs' own words; nothing heavy is
imported. A name that is missing here is not offered by the agent.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_TOOL_S_MAX = 10.0

# The first of a row that is installed gives the version.
_PACKAGES = {
    "torch": ("torch",),
    "triton": ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-windows"),
    "jax": ("jax",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "numpy": ("numpy",),
    "numba": ("numba",),
    "cute_dsl": ("nvidia-cutlass-dsl",),
}

# How a program is asked, and where its answer says the version.
_PROGRAMS = {
    "g++": ("--version", r"\)\s+(\d+\.[\d.]+)"),
    "gcc": ("--version", r"\)\s+(\d+\.[\d.]+)"),
    "ninja": ("--version", r"(\d+(?:\.\d+)+)"),
    "nvcc": ("--version", r"release [\d.]+, V([\d.]+)"),
    "hipcc": ("--version", r"HIP version: ([\d.]+)"),
    "ncu": ("--version", r"Version ([\d.]+)"),
    "nsys": ("--version", r"version ([\d.]+)"),
}

# Where programs lie that are not on everybody's path, in the order they are looked for.
_PROGRAM_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/cuda/bin",
    "/opt/rocm/bin",
    "/opt/nvidia/nsight-compute",
)
_CUDA_FOLDERS = ("/usr/local/cuda", "/opt/cuda")

# A file that shows that a folder holds the headers, and folders where they usually are.
_HEADERS = {
    "cutlass": ("cutlass/version.h", ("/usr/local/cutlass/include", "/opt/cutlass/include")),
    "thunderkittens": (
        "kittens.cuh",
        ("/usr/local/ThunderKittens/include", "/opt/ThunderKittens/include"),
    ),
}
_CUTLASS_VERSION = re.compile(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)")


def probe(headers: Mapping[str, str] | None = None, path: str | None = None) -> dict[str, str]:
    """The versions of what is here, by name; "present" where something does not say its version.

    `headers` says where the operator put cutlass and thunderkittens, if not at a usual place;
    programs are looked for on `path`, else where workers find them.
    """
    found = dict(_packages()) | dict(_programs(path or search_path()))
    if library := nvrtc():
        found["nvrtc"] = _nvrtc_version(library)
    for name, folder in includes(headers).items():
        found[name] = _headers_version(name, Path(folder))
    return dict(sorted(found.items()))


def program(name: str) -> str:
    """The path of a program of workers and builders, "" where there is none."""
    return shutil.which(name, path=search_path()) or ""


def search_path() -> str:
    """The PATH of workers and builders."""
    return os.pathsep.join([str(Path(sys.executable).parent), *_PROGRAM_FOLDERS])


def includes(headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """The folders of the header-only libraries that are here, by name."""
    found = {}
    for name, (witness, usual) in _HEADERS.items():
        folders = [(headers or {}).get(name, ""), *usual]
        if folder := _first(one for one in folders if one and Path(one, witness).is_file()):
            found[name] = folder
    return found


def environment(architecture: str = "") -> dict[str, str]:
    """What compilers in a worker or a builder want to be told; the architecture is a GPU's.

    >>> environment("sm_90a").get("TORCH_CUDA_ARCH_LIST", "9.0a")
    '9.0a'
    """
    # Without the last, torch's profiler writes into the submission's log.
    told = {"PATH": search_path(), "MAX_JOBS": "4", "KINETO_LOG_LEVEL": "6"}
    if cuda := _first(one for one in _CUDA_FOLDERS if Path(one, "bin/nvcc").is_file()):
        told["CUDA_HOME"] = cuda
        if number := re.fullmatch(r"sm_(\d+)(\d[af]?)", architecture):
            # One architecture: each more costs as much again.
            told["TORCH_CUDA_ARCH_LIST"] = f"{number[1]}.{number[2]}"
    return told


def shown(headers: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The folders beyond the system's own that a box must show for all of this to work."""
    folders = {*includes(headers).values(), "/opt/cuda", "/opt/rocm", "/opt/nvidia"}
    return tuple(sorted(one for one in folders if Path(one).is_dir() and not _is_system(one)))


def nvrtc() -> str | None:
    """The path of libnvrtc: of a package of this interpreter, else of the system's CUDA."""
    places = [Path(one).glob("nvidia/*/lib/libnvrtc.so*") for one in sys.path if one]
    places += [Path(one, "lib64").glob("libnvrtc.so*") for one in _CUDA_FOLDERS]
    for place in places:
        if found := [one for one in sorted(place) if ".alt." not in one.name]:
            return str(found[0])
    return None


def cuda_includes() -> tuple[str, ...]:
    """The folders of CUDA's own headers, which nvcc knows and NVRTC must be told."""
    roots = [str(Path(library).parents[1])] if (library := nvrtc()) else []
    folders = [
        Path(root, "include", more) for root in (*roots, *_CUDA_FOLDERS) for more in ("", "cccl")
    ]
    witnesses = ("cuda_fp16.h", "cuda/std/version")
    return tuple(str(one) for one in folders if any((one / name).is_file() for name in witnesses))


def architecture() -> str:
    """What code for this very processor depends on: machine and features.

    A cache of such code is of no use, and of harm, on another processor.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return " ".join([os.uname().machine, *sorted(flags[1].split() if flags else [])])


def _packages() -> Iterator[tuple[str, str]]:
    for name, distributions in _PACKAGES.items():
        if version := _first(filter(None, map(_installed, distributions))):
            yield name, version


def _programs(searched: str) -> Iterator[tuple[str, str]]:
    for name, (flag, pattern) in _PROGRAMS.items():
        if path := shutil.which(name, path=searched):
            said = _said(path, flag)
            if said is not None:
                found = re.search(pattern, said)
                yield name, found[1] if found else "present"


def _said(path: str, flag: str) -> str | None:
    """A program's own words; None if it does not run, so that it is not offered."""
    try:
        ended = subprocess.run(
            [path, flag],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (ended.stdout + ended.stderr).decode(errors="replace")


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvrtc_version(library: str) -> str:
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        if version := _installed(distribution):
            return version
    return Path(library).resolve().name.partition(".so.")[2] or "present"


def _headers_version(name: str, folder: Path) -> str:
    if name != "cutlass":
        return "present"
    text = (folder / "cutlass/version.h").read_text(encoding="utf-8", errors="replace")
    return ".".join(_CUTLASS_VERSION.findall(text)) or "present"


def _first(items: Iterable[str]) -> str | None:
    return next(iter(items), None)


def _is_system(folder: str) -> bool:
    return Path(folder).is_relative_to("/usr")
