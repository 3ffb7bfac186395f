"""The toolchains of this machine, and the fixed command line that each language is built with.

Their versions come from package metadata and from the programs themselves; nothing heavy is
imported. The agent does not offer what is missing here.

A submission may request more in its leading comment lines, from an allow list alone:

    //!WARPBOARD flags: -O2 -std=c++17 -DTILE=64
    //!WARPBOARD compiler: nvrtc
    //!WARPBOARD launch: grid=(outputs[0].numel() + 255) // 256, block=256
"""

import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import token
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

HEADER = Path(__file__).parent / "warpboard.h"
# A submission to a problem in C++ is compiled together with this driver.
DRIVER = HEADER.parent / "native" / "wb_submission.cpp"
LANGUAGES = {".cpp": "cpp", ".cu": "cuda", ".hip": "hip"}
# The languages whose code needs no GPU.
HOST_LANGUAGES = ("cpp",)

BUILD_S_MAX = 120
BUILD_MEMORY_BYTES = 4 * 1024**3
BUILD_PROCESSES_MAX = 64
BUILT_BYTES_MAX = 64 * 1024**2

_CPP_EXTENSION = "cpp_extension"
_FLAGS_MAX = 16
_FLAG_CHARS_MAX = 100
_LEADING_LINES_MAX = 64
_DIRECTIVE = re.compile(r"//!\s*WARPBOARD\s+(\w+)\s*:\s*(.*)", re.IGNORECASE)
_TOPICS = ("flags", "compiler", "launch")
# What a submission may add, by the name that a refusal shows.
_FLAGS = {
    "-O*": re.compile(r"-O([0-3gsz]|fast)?"),
    "-std=*": re.compile(r"-?-std=(c|gnu)\+\+(11|14|17|20|23|2a|2b)"),
    "-DNAME[=VALUE], -UNAME": re.compile(r"-D[A-Za-z_]\w*(=[\w.+-]*)?|-U[A-Za-z_]\w*", re.ASCII),
    "--use_fast_math": re.compile(r"--?use_fast_math"),
    "-maxrregcount=N": re.compile(r"--?maxrregcount=\d{1,3}"),
    "--extended-lambda": re.compile(r"--?(extended-lambda|expt-extended-lambda)"),
    "--expt-relaxed-constexpr": re.compile(r"--?expt-relaxed-constexpr"),
    # A library by its name only: a path or another option of the linker could run foreign code.
    "-lcublas": re.compile(r"-lcublas"),
    "-lcublasLt": re.compile(r"-lcublasLt"),
}
_LEVEL, _STANDARD, _DEFINE, *_NVCC_FLAGS = _FLAGS
_ALLOWED = {
    "cpp": (_LEVEL, _STANDARD, _DEFINE),
    "hip": (_LEVEL, _STANDARD, _DEFINE),
    "cuda": (_LEVEL, _STANDARD, _DEFINE, *_NVCC_FLAGS),
    "nvrtc": (_STANDARD, _DEFINE, "--use_fast_math", "-maxrregcount=N"),
}


class BuildRefused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission requests something that is not allowed; the text is for people."""


@dataclass(frozen=True)
class Directives:
    """What a native submission says about its own build."""

    language: str
    flags: tuple[str, ...] = ()
    launch: str = ""


@dataclass(frozen=True)
class BuildPaths:
    """Paths inside the box that builds: the source, the result, the tools.

    `architecture` is a GPU's, such as sm_90a or gfx942, unused for a processor; `includes` are
    folders of header-only libraries; `nvrtc` is the path of libnvrtc.
    """

    source: str
    output: str
    architecture: str = ""
    includes: tuple[str, ...] = ()
    nvrtc: str = ""


@dataclass(frozen=True)
class BuildOrder:
    """What a builder does in its box: runs `arguments`, or calls the library `nvrtc` instead."""

    arguments: tuple[str, ...]
    source: str
    output: str
    nvrtc: str = ""
    bytes_max: int = BUILT_BYTES_MAX
    environment: Mapping[str, str] = field(default_factory=dict)


def detect_language(name: str) -> str | None:
    """Return the native language of a file, by its suffix; None for Python."""
    return LANGUAGES.get(PurePath(name).suffix)


def names_extensions(source: bytes) -> bool:
    """Return whether a source contains the name of torch's module that starts a C++ compiler."""
    return _CPP_EXTENSION.encode() in source


def compiles_at_import(source: bytes) -> bool:
    """Return whether a Python submission probably starts a C++ compiler at import.

    That needs a builder's limits. It is only a hint: a submission that hides it gets a worker's
    limits.
    """
    if not names_extensions(source):
        return False
    # The word in a comment or a string does not justify a builder's memory.
    try:
        tokens = tokenize.tokenize(io.BytesIO(source).readline)
        return any(part.type == token.NAME and part.string == _CPP_EXTENSION for part in tokens)
    except (SyntaxError, tokenize.TokenError):
        return False


def parse_directives(source: bytes, language: str) -> Directives:
    """Parse the leading comment lines. Raises BuildRefused with one sentence."""
    values: dict[str, str] = {}
    for line in _leading_comments(source):
        match = _DIRECTIVE.match(line)
        if not match:
            continue
        topic, value = match[1].lower(), match[2].strip()
        if topic not in _TOPICS or topic in values:
            problem = "repeated" if topic in values else "unknown"
            raise BuildRefused(f"{problem} directive {topic!r}: there are {', '.join(_TOPICS)}")
        values[topic] = value
    if (compiler := values.get("compiler")) is not None:
        if compiler.lower() != "nvrtc" or language != "cuda":
            request = f"the compiler {compiler!r} cannot be requested"
            raise BuildRefused(f"{request}: a .cu file may request nvrtc")
        language = "nvrtc"
    if ("launch" in values) != (language == "nvrtc"):
        reason = "use 'launch: grid=…, block=…' together with 'compiler: nvrtc', not alone"
        raise BuildRefused(reason)
    flags = tuple(values.get("flags", "").split())
    _require_allowed(flags, language)
    return Directives(language, flags, values.get("launch", ""))


def make_build_order(directives: Directives, paths: BuildPaths) -> BuildOrder:
    """Return the platform's command line with the flags that the submission may add."""
    includes = [f"-I{folder}" for folder in paths.includes]
    if directives.language == "nvrtc":
        options = (f"--gpu-architecture={paths.architecture}", *includes, *directives.flags)
        return BuildOrder(options, paths.source, paths.output, paths.nvrtc)
    flags, libraries = split_libraries(directives.flags)
    arguments = (
        *compiler_arguments(directives.language, paths.architecture),
        *flags,
        *includes,
        *(paths.source, "-o", paths.output),
        *libraries,
    )
    return BuildOrder(arguments, paths.source, paths.output)


def split_libraries(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags that come before the sources, and the libraries, which come after them.

    A linker drops a library that comes before what uses it.

    >>> split_libraries(["-lcublas", "-O2"])
    (['-O2'], ['-lcublas'])
    """
    libraries = [flag for flag in flags if flag.startswith("-l")]
    return [flag for flag in flags if flag not in libraries], libraries


def is_for_nvcc(flag: str) -> bool:
    """Return whether only nvcc knows a flag.

    >>> is_for_nvcc("--use_fast_math"), is_for_nvcc("-O2")
    (True, False)
    """
    return any(_FLAGS[name].fullmatch(flag) for name in _NVCC_FLAGS)


def compiler_arguments(language: str, architecture: str) -> tuple[str, ...]:
    """Return how a compiler is called for a shared object, without source and result."""
    shared = ("-O3", "-std=c++20", "-shared")
    if language == "cpp":
        return ("g++", *shared, "-march=native", "-fPIC", "-pipe")
    if language == "hip":
        return ("hipcc", *shared, "-fPIC", f"--offload-arch={architecture}")
    virtual = architecture.replace("sm_", "compute_")
    # The PTX is made in any case; with it, a profile can show it.
    target = f"arch={virtual},code=[{virtual},{architecture}]"
    return ("nvcc", *shared, "-Xcompiler", "-fPIC", "-gencode", target)


def _leading_comments(source: bytes) -> list[str]:
    lines = []
    for line in source.splitlines()[:_LEADING_LINES_MAX]:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith("//"):
            break
        lines.append(text)
    return lines


def _require_allowed(flags: tuple[str, ...], language: str) -> None:
    if len(flags) > _FLAGS_MAX:
        raise BuildRefused(f"{len(flags)} flags are requested, at most {_FLAGS_MAX} are allowed")
    names = _ALLOWED[language]
    for flag in flags:
        if len(flag) > _FLAG_CHARS_MAX or not any(_FLAGS[name].fullmatch(flag) for name in names):
            refusal = f"the flag {flag[:_FLAG_CHARS_MAX]!r} is not allowed"
            raise BuildRefused(f"{refusal}: allowed are {', '.join(names)}")


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
    versions |= _probe_programs(path or search_path())
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


def _probe_programs(path: str) -> dict[str, str]:
    versions = {}
    for name, pattern in _PROGRAMS.items():
        program = shutil.which(name, path=path)
        if program and (output := _read_version_output(program)) is not None:
            match = re.search(pattern, output)
            versions[name] = match[1] if match else "present"
    return versions


def find_program(name: str) -> str:
    """Return the path of a program of workers and builders, "" if there is none."""
    return shutil.which(name, path=search_path()) or ""


def search_path() -> str:
    """Return the PATH of workers and builders."""
    wheels = (f"{folder}/bin" for folder in _cuda_wheels())
    return os.pathsep.join([str(Path(sys.executable).parent), *_PROGRAM_FOLDERS, *wheels])


def find_cuobjdump() -> str:
    """Return the path of a cuobjdump with the nvdisasm that it needs beside it, else "".

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
