"""Loads a submission from what a worker is given, and binds it to a case's memories.

A Python submission that is a torch.nn.Module class, KernelBench's form, is called as a kernel.

What was compiled in a box is packed for the next worker of the same source: its compile caches, and
every other folder below its home that has a compiled file, such as a `build_directory`. A pack is 8
bytes, the length of a list; the list as JSON, with [name, bytes, mode, mtime_ns] for each file;
then the files' bytes. Times are kept to the nanosecond because ninja compares them. Links, devices
and empty folders are left out.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import random
import stat
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path, PurePosixPath
from typing import Any

from harness.worker import native
from harness.worker.cuda import CudaBatch
from harness.worker.explanations import describe_exception, explain_exception
from harness.worker.memory import SharedCase
from harness.worker.protocol import SubmissionFailure

PACK_BYTES_MAX = 64 * 1024**2
FILES_MAX = 10_000
LIST_BYTES_MAX = 4 * 1024**2
_LENGTH_BYTES = 8

# The folder of all compile caches, in a box's home.
CACHE = "cache"
# Files that only a compiler makes. A folder without any is not worth keeping.
_COMPILED = (".so", ".o", ".cubin", ".fatbin", ".ptx", ".hsaco", ".nbc", ".gch", ".pch")

CUSTOM_KERNEL = "custom_kernel"

_NUMPY_SEED_MASK = 0xFFFF_FFFF

Kernel = Callable[[Any], Any]
Call = Callable[[bytes], bytes | None]
CaseBinder = Callable[[Any], Call]


class InvalidPack(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The pack is malformed, or contains a forbidden name."""


def pack_built(home: str, descriptor: int) -> bool:
    """Write what was compiled below a box's home into a memory.

    Return False and write nothing if that is nothing, or more than a pack may hold.
    """
    root = Path(home)
    paths = sorted(_find_built(root))[: FILES_MAX + 1]
    if not any(path.suffix in _COMPILED for path in paths):
        return False
    entries = []
    for path in paths:
        status, name = path.lstat(), path.relative_to(root).as_posix()
        mode = stat.S_IMODE(status.st_mode) & 0o777
        entries.append((name, status.st_size, mode, status.st_mtime_ns))
    head = json.dumps(entries).encode()
    size = _LENGTH_BYTES + len(head) + sum(entry[1] for entry in entries)
    if size > PACK_BYTES_MAX or len(paths) > FILES_MAX or len(head) > LIST_BYTES_MAX:
        return False
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(len(head).to_bytes(_LENGTH_BYTES) + head)
        for path, entry in zip(paths, entries, strict=True):
            # Zeros stand where a file shrank since it was listed.
            with path.open("rb") as file:
                memory.write(file.read(entry[1]).ljust(entry[1], b"\0"))
    return True


def unpack_built(descriptor: int, folder: str) -> int:
    """Write the files of a pack into a folder; return their number.

    Raises InvalidPack for a name that leads out of the folder, or OSError if a file exists already.
    """
    root = Path(folder)
    with os.fdopen(os.dup(descriptor), "rb") as memory:
        memory.seek(0)
        names = _read_list(memory)
        for name, size, mode, mtime_ns in names:
            data = memory.read(size)
            if len(data) != size:
                raise InvalidPack(f"the pack ends within {name!r}")
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, mode), "wb") as file:
                file.write(data)
                file.flush()
                os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
    return len(names)


def _find_built(home: Path) -> Iterator[Path]:
    """Yield the files of the compile caches, and of every folder with a compiled file."""
    for parent, _, names in os.walk(home, followlinks=False):
        paths = [Path(parent, name) for name in names]
        paths = [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
        is_cache = Path(parent).is_relative_to(home / CACHE)
        if is_cache or any(path.suffix in _COMPILED for path in paths):
            yield from paths


def _read_list(memory: Any) -> list[tuple[str, int, int, int]]:
    length = int.from_bytes(memory.read(_LENGTH_BYTES))
    if length > LIST_BYTES_MAX:
        raise InvalidPack(
            f"the list of a pack has {length} bytes, at most {LIST_BYTES_MAX} are allowed"
        )
    try:
        names = [_check_entry(*entry) for entry in json.loads(memory.read(length))]
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidPack(f"the list of a pack cannot be read: {error!r}") from error
    if len(names) > FILES_MAX or sum(size for _, size, _, _ in names) > PACK_BYTES_MAX:
        raise InvalidPack("a pack contains more than is allowed")
    return names


def _check_entry(name: str, size: int, mode: int, mtime_ns: int) -> tuple[str, int, int, int]:
    path = PurePosixPath(name)
    is_plain = bool(path.parts) and ".." not in path.parts and not path.is_absolute()
    if not is_plain or "\0" in name or min(size, mode, mtime_ns) < 0:
        raise InvalidPack(f"a pack contains the forbidden name {name!r}")
    return str(path), size, mode & 0o777, mtime_ns


def load_submission(
    path: Path, role: dict[str, Any], descriptors: list[int], home: str
) -> CaseBinder:
    """Load the submission at `path`; return what makes a call of a case.

    `home` is where its build wrote; `descriptors` are the results of its build. Raises
    SubmissionFailure.
    """
    if role.get("is_null"):
        return _bind_null
    if "launch" in role:
        native_kernel = native.load_built_kernel(descriptors[0], role["launch"])
        return lambda case: native_kernel.bind(*case.tensors())
    for descriptor in descriptors:
        # A pack that cannot be unpacked only costs another compilation.
        with contextlib.suppress(InvalidPack, OSError):
            unpack_built(descriptor, home)
        os.close(descriptor)
    sys.path.insert(0, str(path.parent))
    entry = role.get("entry", CUSTOM_KERNEL)
    kernel = load_kernel(path, entry)
    if entry != CUSTOM_KERNEL:
        kernel = ModelKernel(kernel)

    def bind(case: SharedCase) -> Call:
        if isinstance(case, CudaBatch):
            return lambda scalars: case.answer(kernel, scalars)
        return lambda scalars: case.commit(kernel(case.data(scalars)))

    return bind


def _bind_null(case: SharedCase) -> Call:
    """Return a call that only creates the data's tensors, the minimum of any call.

    It copies no answer: a submission that writes its answer in place copies none either, and would
    be credited with the time of a copy that it never made.
    """

    def call(scalars: bytes) -> None:
        case.data(scalars)

    return call


def load_kernel(path: Path, entry: str = CUSTOM_KERNEL) -> Kernel:
    """Return the object that the submission defines as its entry.

    Raises SubmissionFailure of kind compile_error or import_error.
    """
    name = path.stem
    loader = SourceFileLoader(name, str(path))
    try:
        path.read_text(encoding="utf-8")
        loader.get_code(name)
    except Exception as error:
        raise SubmissionFailure("compile_error", describe_exception(error, path)) from error
    spec: Any = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        raise explain_exception(error, path, "import_error") from error
    kernel = getattr(module, entry, None)
    if not callable(kernel):
        kind = "function" if entry == CUSTOM_KERNEL else "class"
        raise SubmissionFailure("import_error", f"{path.name} defines no {kind} {entry}")
    return kernel  # type: ignore[no-any-return]  # a participant's object, not trusted


class ModelKernel:
    """Calls a model. It is built at the first call, as the reference's is, under its seed.

    The data is {"model": seed, "init": arguments, "seed": of this call, "inputs": arguments}. The
    model stays in training mode, on the device of its inputs, and computes no gradients.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self._class = model
        self._model: Any = None
        self._torch: Any = importlib.import_module("torch")

    def __call__(self, data: dict[str, Any]) -> Any:
        """Return the answer to one call's data."""
        if self._model is None:
            self._seed(data["model"])
            self._model = self._move_model(self._class(*data["init"]), data["inputs"])
        self._seed(data["seed"])
        with self._torch.no_grad():
            return self._model(*data["inputs"])

    def _move_model(self, model: Any, inputs: Any) -> Any:
        places = (value.device for value in inputs if isinstance(value, self._torch.Tensor))
        return model.to(next(places, "cpu"), self._torch.float32)

    def _seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed & _NUMPY_SEED_MASK)
