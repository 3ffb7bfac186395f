"""How one submission is built on this machine, and the cache of the results.

A result is opaque bytes under a key of the exact source. Entries are only read to check that they
are complete. The first writer of a key wins; the least recently used entries are removed when the
folder exceeds its limit.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import secrets
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import NamedTuple

from harness.build import command
from harness.build.command import (
    DRIVER,
    HEADER,
    HOST_LANGUAGES,
    BuildOrder,
    BuildPaths,
    BuildRefused,
    compiler_arguments,
    compiles_at_import,
    detect_language,
    is_for_nvcc,
    make_build_order,
    parse_directives,
    split_libraries,
)
from harness.messages import VERSION
from harness.problem import Problem
from harness.vocabulary import COMPILERS

ENTRY_BYTES_MAX = 64 * 1024**2
TOTAL_BYTES_MAX = 4 * 1024**3
ENTRIES_MAX = 4096
_DIGEST_BYTES = 32
_TEMPORARY_SUFFIX = ".new"

# The cache folders of compilers and similar tools; all are packed together.
CACHE_VARIABLES = (
    "XDG_CACHE_HOME",
    "NUMBA_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CUPY_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "CUTE_DSL_CACHE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
)


def build_key(
    source: bytes, flags: Iterable[str], tools: Mapping[str, str], architecture: str, harness: str
) -> str:
    """Return the name of what this source is built to by these tools: 64 hexadecimal digits.

    `harness` stands for our own headers and command lines, and changes with them.
    """
    parts = [list(flags), sorted(tools.items()), architecture, harness]
    head = json.dumps(parts).encode()
    return hashlib.sha256(len(head).to_bytes(8) + head + source).hexdigest()


def seal_memory(data: bytes) -> int:
    """Return a memory with these bytes that cannot be changed; the caller owns its descriptor."""
    descriptor = os.memfd_create("built", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_memory(descriptor: int, bytes_max: int = ENTRY_BYTES_MAX) -> bytes:
    """Return everything that a worker wrote into our memory, b"" if it wrote too much.

    The memory is read at once from its beginning, at whatever position the worker left it.
    """
    size = os.fstat(descriptor).st_size
    if size > bytes_max:
        return b""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(bytes_max)


class BuildCache:
    """Entries in a `folder`, given by its open descriptor, because its path may be hidden."""

    def __init__(self, folder: int, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self.folder = folder
        self._total_bytes_max = total_bytes_max

    def get(self, key: str) -> bytes | None:
        """Return what is stored under a key, if it exists and is complete.

        A closed cache has nothing.
        """
        if self.folder < 0:
            return None
        try:
            with open(_check_key(key), "rb", opener=self._open_file) as file:
                digest, data = file.read(_DIGEST_BYTES), file.read(ENTRY_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).digest() != digest:
            self._remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(key, dir_fd=self.folder)
        return data

    def put(self, key: str, data: bytes) -> bool:
        """Store bytes under a key; False if they are too many, or the key exists already."""
        if not 0 < len(data) <= ENTRY_BYTES_MAX:
            return False
        new = f"{_check_key(key)}.{secrets.token_hex(4)}{_TEMPORARY_SUFFIX}"
        with open(new, "xb", opener=self._open_file) as file:
            file.write(hashlib.sha256(data).digest() + data)
        try:
            os.link(new, key, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except FileExistsError:
            return False
        finally:
            self._remove(new)
        self._evict(keep=key)
        return True

    def close(self) -> None:
        """Close the folder for good, so that code that runs later cannot change it."""
        if self.folder >= 0:
            os.close(self.folder)
        self.folder = -1

    def sweep(self) -> None:
        """Remove incomplete files of killed writers; call it before any run."""
        for name in self._names():
            if name.endswith(_TEMPORARY_SUFFIX):
                self._remove(name)

    def _evict(self, keep: str) -> None:
        """Remove the least recently used entries until the rest fits; other runs may do so too."""
        entries = []
        for name in self._names():
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=self.folder)
                entries.append((name == keep, status.st_mtime_ns, status.st_size, name))
        total, count = sum(size for _, _, size, _ in entries), len(entries)
        for is_kept, _, size, name in sorted(entries):
            if is_kept or (total <= self._total_bytes_max and count <= ENTRIES_MAX):
                return
            self._remove(name)
            total, count = total - size, count - 1

    def _names(self) -> list[str]:
        return os.listdir(self.folder)  # noqa: PTH208  (a descriptor, not a path)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)

    def _open_file(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self.folder)


def _check_key(key: str) -> str:
    """Return the key after checking that it is not a path."""
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")
    return key


REPORT_SUFFIX = ".ncu-rep"
KERNELS_MAX = 20

# From its manual: a box has no TCP, and no documents folder to copy sections to.
NCU_ENVIRONMENT = {
    "NV_COMPUTE_PROFILER_LOCAL_CONNECTION_OVERRIDE": "uds",
    "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1",
}

_PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True)
class Ncu:
    """A machine's ncu by its path, "" if there is none, and the devices it is used on."""

    path: str = ""
    devices: tuple[str, ...] = ("cuda",)

    def is_for(self, device: str, ranks: int) -> bool:
        """Return whether it profiles a case: one process only, as several wait for each other."""
        return bool(self.path) and device in self.devices and ranks == 1

    @property
    def folders(self) -> tuple[str, ...]:
        """Its folders: by its own path and by that of its link target."""
        if not self.path:
            return ()
        paths = (Path(self.path), Path(self.path).resolve())
        return tuple(sorted({str(path.parent) for path in paths}))


class NcuFilter(NamedTuple):
    """Which kernels ncu captures, and how many; `name` may be an expression after `regex:`."""

    name: str = ""
    name_base: str = ""
    launch_count: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of ncu; a value never begins one."""
        named = {"kernel-name": self.name, "kernel-name-base": self.name_base}
        arguments = [f"--{option}={value}" for option, value in named.items() if value]
        return (*arguments, f"--launch-count={self.launch_count or KERNELS_MAX}")


_ANY_KERNEL = NcuFilter()


def ncu_command(ncu: str, report: str, kernels: NcuFilter = _ANY_KERNEL) -> tuple[str, ...]:
    """Return the command that runs a program, appended to it, and writes `report` + suffix.

    It profiles what lies between the marks of replay.py. Errors of ncu show in its output and its
    exit status; ERR_NVGPUCTRPERM means that the operator has not allowed performance counters to
    accounts other than root.
    """
    scope = ("--target-processes=all", "--profile-from-start=off", *kernels.arguments)
    details = ("--config-file=off", "--set=full", "--import-source=yes", "--clock-control=none")
    return (ncu, *scope, *details, "--force-overwrite", f"--export={report}")


def page_commands(ncu: str, report: str) -> dict[str, tuple[str, ...]]:
    """Return the command lines that print a report's text page and its table.

    A report comes from an untrusted process: it is read in a box, never by the supervisor.
    """
    source = f"--import={report}{REPORT_SUFFIX}"
    return {"text": (ncu, source, "--page=details"), "csv": (ncu, source, "--page=raw", "--csv")}


def pack_replay() -> bytes:
    """Return the program that ncu runs with all its imports; a box shows nothing else of ours."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (_PACKAGE / "__init__.py", *sorted((_PACKAGE / "worker").glob("*.py"))):
            archive.write(file, f"harness/{file.relative_to(_PACKAGE)}")
        archive.write(_PACKAGE / "worker/replay.py", "__main__.py")
    return buffer.getvalue()


class ToolMissing(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """This machine has no compiler for the submission: the machine's fault."""


@dataclass(frozen=True)
class BuildTools:
    """What a machine builds with, probed once: versions by name, folders, processor, GPU.

    `gpu` is the architecture of the GPU that submissions run on, such as sm_90a; "" without one.
    `folders` are what a box with a GPU must show of these tools beyond the system's own.
    """

    tools: Mapping[str, str]
    environment: Mapping[str, str]
    includes: tuple[str, ...]
    nvrtc: str
    processor: str
    gpu: str = ""
    ncu: Ncu = field(default_factory=Ncu)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildPlan:
    """How one submission is built.

    With an `order` it is native: a builder carries the order out, and a worker gets the result and
    `launch`. Without one it is Python, and the result is a pack of its compile caches, made by the
    first worker that imports it; with `is_heavy` that one needs a builder's limits.
    """

    key: str
    order: BuildOrder | None = None
    launch: str = ""
    is_heavy: bool = False

    @property
    def is_native(self) -> bool:
        """Whether a compiler runs before any worker does."""
        return self.order is not None


def survey_tools(ncu: str = "") -> BuildTools:
    """Find what is installed; `ncu` replaces the machine's own, on any device."""
    return BuildTools(
        tools=command.probe_toolchains() | {"python": platform.python_version()},
        environment=command.compiler_environment(),
        includes=tuple(command.find_includes().values()),
        nvrtc=command.find_nvrtc() or "",
        processor=command.processor_features(),
        ncu=Ncu(ncu, ("cpu", "cuda")) if ncu else Ncu(command.find_program("ncu")),
        folders=command.tool_folders(),
    )


def plan_build(tools: BuildTools, texts: Sequence[bytes], path: str, scratch: str) -> BuildPlan:
    """Plan the build of a source at `path` in its box, whose scratch folder is `scratch`.

    `texts` are the source, and the problem's files beside it that it may import, because the build
    result can depend on them. Raises BuildRefused if the submission requests something that is not
    allowed; ToolMissing.
    """
    language, source = detect_language(path), texts[0]
    if language is None:
        # The other texts begin with their names.
        modules = (source, *(text.partition(b"\0")[2] for text in texts[1:]))
        return BuildPlan(_key(tools, texts, ()), is_heavy=any(map(compiles_at_import, modules)))
    directives = parse_directives(source, language)
    if directives.language not in HOST_LANGUAGES and not tools.gpu:
        raise BuildRefused(f"a {PurePath(path).suffix} submission needs a GPU, but there is none")
    _require_compiler(tools, directives.language)
    includes = tools.includes
    if directives.language == "nvrtc":
        includes = (*includes, *command.find_cuda_includes())
    nvrtc = tools.nvrtc if directives.language == "nvrtc" else ""
    paths = BuildPaths(path, f"{scratch}/built/kernel", tools.gpu, includes, nvrtc)
    build_order = replace(make_build_order(directives, paths), environment=tools.environment)
    # The key must not depend on a box's folder names, which may change every time.
    portable_paths = replace(paths, source="", output="")
    portable_arguments = make_build_order(directives, portable_paths).arguments
    return BuildPlan(_key(tools, texts, portable_arguments), build_order, directives.launch)


def plan_driver_build(
    tools: BuildTools, problem: Problem, texts: Sequence[bytes], path: str, scratch: str
) -> BuildPlan:
    """Plan the build of a submission to a problem in C++, compiled with our driver.

    `texts` are the submission, which is at `path` in the box, and what is compiled with it. Raises
    BuildRefused; ToolMissing.
    """
    directives = parse_directives(texts[0], "cuda" if tools.gpu else "cpp")
    flags, libraries = split_libraries(directives.flags)
    defines = [f'-DWB_SUBMISSION="{PurePath(path).name}"']
    defines += ["-DWB_DEVICE_ARRAYS"] if problem.native.arrays == "device" else []
    folder, output = PurePath(path).parent, f"{scratch}/built/kernel"
    arguments = driver_arguments(tools, problem, (*flags, *defines))
    sources = [str(folder / name) for name in (DRIVER.name, *problem.native.sources)]
    command = (*arguments, f"-I{folder}", *sources, "-o", output, *libraries)
    build_order = BuildOrder(command, sources[0], output)
    key = _key(tools, (*texts, read_drivers()), (*arguments, *libraries))
    return BuildPlan(key, replace(build_order, environment=tools.environment))


def cache_folder(scratch: str) -> str:
    """Return where all compile caches of a box lie, as worker.submission packs them."""
    return f"{scratch}/cache"


def _key(tools: BuildTools, texts: Sequence[bytes], arguments: tuple[str, ...]) -> str:
    # The digests of texts, so that moving text between them changes the key.
    source = b"".join(hashlib.sha256(text).digest() for text in texts)
    harness = f"{VERSION} {hashlib.sha256(HEADER.read_bytes()).hexdigest()}"
    architecture = f"{tools.processor} {tools.gpu}"
    return build_key(source, arguments, tools.tools, architecture, harness)


def _require_compiler(tools: BuildTools, language: str) -> None:
    if (compiler := COMPILERS[language]) not in tools.tools:
        raise ToolMissing(f"there is no {compiler} on this machine")


def driver_arguments(
    tools: BuildTools, problem: Problem, flags: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command line for a driver, without source and result. Raises ToolMissing."""
    language = "cuda" if tools.gpu else "cpp"
    _require_compiler(tools, language)
    includes = tuple(f"-I{folder}" for folder in tools.includes)
    # Flags that only nvcc knows are not passed to g++ on the cpu device.
    all_flags = problem.native.arguments()
    author_flags = [flag for flag in all_flags if tools.gpu or not is_for_nvcc(flag)]
    arguments = (*compiler_arguments(language, tools.gpu), *author_flags, *flags, *includes)
    return (*arguments, "-x", "cu" if tools.gpu else "c++")


def plan_program(tools: BuildTools, problem: Problem, path: str, scratch: str) -> BuildOrder:
    """Plan the build of a C++ problem's own program with the submission, which is at `path`.

    If the GPU's architecture is unknown, nvcc's default is used, which newer GPUs load too. Raises
    ToolMissing.
    """
    arguments = driver_arguments(tools, problem)
    folder, output = PurePath(path).parent, f"{scratch}/built/program"
    sources = [str(folder / name) for name in (*problem.native.sources, PurePath(path).name)]
    program_arguments = [argument for argument in arguments if argument != "-shared"]
    command = (*program_arguments, f"-I{folder}", *sources, "-o", output)
    return BuildOrder(command, sources[0], output, environment=tools.environment)


def read_drivers() -> bytes:
    """Return all driver sources, for the keys of what is built from them."""
    return b"".join(path.read_bytes() for path in sorted(DRIVER.parent.iterdir()))


def worker_environment(tools: BuildTools, scratch: str) -> dict[str, str]:
    """Return the part of a worker's environment for compilers and their common cache."""
    return {**tools.environment, **dict.fromkeys(CACHE_VARIABLES, cache_folder(scratch))}


def adapt_tools(tools: BuildTools, architecture: str) -> BuildTools:
    """Return build tools that build for a GPU; the same ones if there is no GPU."""
    if not architecture:
        return tools
    environment = command.compiler_environment(architecture)
    return replace(tools, gpu=architecture, environment=environment)
