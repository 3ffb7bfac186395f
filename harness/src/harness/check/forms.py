"""How an author's functions are called: Python in each public form of a problem, and C++.

Functions in C++ are compiled behind our driver and called through ctypes. They are trusted like a
reference.py: the run's own process, which holds nothing worth stealing, compiles and runs them.
Data and answers are tuples of flat tensors (wb_values.h).
"""

import ctypes
import importlib
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple

from harness.build.command import BUILD_S_MAX, DRIVER, HEADER
from harness.build.plan import (
    BuildCache,
    BuildTools,
    ToolMissing,
    build_key,
    driver_arguments,
    read_drivers,
    seal_memory,
)
from harness.check.inputs import derive_seed
from harness.check.structure import flatten
from harness.check.utilities import is_close_by_scale, is_same
from harness.problem import ProblemFault, RunDirectory
from harness.worker.protocol import DTYPES

_NUMPY_SEED_MASK = 0xFFFF_FFFF
_SEED_BYTES = 8
_SEED_BITS = 63
# Relative and absolute tolerance of answers (`is_close_by_scale`); other dtypes must be equal.
_TOLERANCES = {
    **dict.fromkeys(("float64", "float32", "complex64", "complex128"), 1e-4),
    **dict.fromkeys(("float16", "bfloat16"), 1e-2),
}

REFERENCE = "wb_reference.cpp"
_ARGUMENTS_MAX = 64
_MESSAGE_CHARS_MAX = 1500
_RIGHT, _WRONG = 0, 1


class ProblemFunctions(NamedTuple):
    """A problem's functions: generate the data of a case, answer it, check an answer."""

    generate: Callable[..., Any]
    answer: Callable[[Any], Any]
    check: Callable[[Any, Any], Any]


def load_functions(form: str, module: ModuleType) -> ProblemFunctions:
    """Return the functions of a file of this form. Raises ProblemFault if one is missing."""
    if form == "kernelbench":
        models = _Models(module)
        return ProblemFunctions(models.data, models.answer, models.check)
    names = ("generate_input", "ref_kernel", "check_implementation")
    generate, answer, check = (_require_function(module, name) for name in names)
    if form == "outputs":
        return ProblemFunctions(
            generate, answer, lambda data, output: check(output, answer(_clone_data(data)))
        )
    if form == "reference_outputs":
        return ProblemFunctions(
            generate, answer, lambda data, output: check(answer(_clone_data(data)), output)
        )
    return ProblemFunctions(generate, answer, check)


def seed_generators(number: int) -> None:
    """Seed the global generators of torch, Python and, if it was imported, numpy."""
    torch: Any = importlib.import_module("torch")
    if torch.backends.cuda.is_built():
        torch.manual_seed(number)
    else:
        # `manual_seed` would record a stack trace for a GPU that this torch cannot use.
        torch.default_generator.manual_seed(number)
    random.seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number & _NUMPY_SEED_MASK)


class _Models:
    """A `Model` with `get_inputs` and `get_init_inputs`: KernelBench's form.

    The model is built once, under a seed that follows from the first seed of the run, and which
    every call passes on. A submission sees the seeds of the model and of the forward pass, on a GPU
    before it sees the inputs; no other seed can be computed from them.
    """

    def __init__(self, module: ModuleType) -> None:
        names = ("get_inputs", "get_init_inputs", "Model")
        self._inputs, self._init_inputs, self._class = (
            _require_function(module, name) for name in names
        )
        self._torch: Any = importlib.import_module("torch")
        self._seed = 0
        self._init: list[Any] | None = None
        self._model: Any = None

    def data(self) -> Any:
        """Generate inputs under the current seed, moved to the run's device."""
        seed = self._torch.initial_seed()
        if self._init is None:
            self._seed = _derive_shown_seed(seed, "model")
            self._init = list(self._init_inputs())
            seed_generators(seed)
        inputs = [self._move_to_device(value) for value in self._inputs()]
        forward_seed = _derive_shown_seed(seed, "forward")
        return {"model": self._seed, "init": self._init, "seed": forward_seed, "inputs": inputs}

    def answer(self, data: Any) -> Any:
        """Return the model's answer, in training mode and without gradients."""
        if self._model is None:
            seed_generators(data["model"])
            self._model = self._class(*data["init"]).to(self._device_place(), self._torch.float32)
        seed_generators(data["seed"])
        with self._torch.no_grad():
            return self._model(*data["inputs"])

    def check(self, data: Any, output: Any) -> tuple[bool, str]:
        """Return whether every part is close to the model's own answer."""
        pairs = _pair_tensors(output, self.answer(_clone_data(data)))
        differences = [*filter(None, (self._describe_difference(*pair) for pair in pairs))]
        return not differences, "\n".join(differences)

    def _move_to_device(self, value: Any) -> Any:
        if not isinstance(value, self._torch.Tensor):
            return value
        kind = self._torch.float32 if value.is_floating_point() else value.dtype
        return value.detach().to(self._device_place(), kind)

    def _device_place(self) -> Any:
        is_gpu = self._torch.cuda.is_available()
        return self._torch.device("cuda", self._torch.cuda.current_device()) if is_gpu else "cpu"

    def _describe_difference(self, got: Any, want: Any) -> str:
        bound = _TOLERANCES.get(str(want.dtype).removeprefix("torch."))
        if bound is None:
            is_equal = self._torch.equal(got, want)
            return "" if is_equal else f"{int((got != want).sum())} of {want.numel()} values differ"
        if is_same(got, want):
            return ""
        close, absolute = is_close_by_scale(got, want, bound, bound)
        count = int(close.logical_not().sum())
        if not count:
            return ""
        small = f" of themselves and {absolute:.2g}" if absolute < bound else ""
        return f"{count} of {want.numel()} values are off by more than {bound:g}{small}"


def _derive_shown_seed(seed: int, purpose: str) -> int:
    """Derive a seed from which the first cannot be computed."""
    key = seed.to_bytes(_SEED_BYTES, "little")
    return derive_seed(key, purpose, case="", call=0, bits=_SEED_BITS)


def _clone_data(data: Any) -> Any:
    """Copy data, because a reference may write to it and others still need it."""
    return flatten(data, "generate_input").clone()


def _pair_tensors(output: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Yield tensors with their expected values; their structures are already known to match."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            yield from _pair_tensors(output[key], value)
    elif isinstance(expected, list | tuple):
        for got, want in zip(output, expected, strict=True):
            yield from _pair_tensors(got, want)
    else:
        yield output, expected


def _require_function(module: ModuleType, name: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        kind = "class" if name[0].isupper() else "function"
        raise ProblemFault(f"reference.py defines no {kind} {name}")
    return function  # type: ignore[no-any-return]  # the author's object, checked where it is used


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


def load_native_functions(
    directory: RunDirectory, build_tools: BuildTools, cache: BuildCache
) -> ProblemFunctions:
    """Load the functions of a problem's reference.cuh and close the cache before they run.

    Other runs load what the cache holds. Raises ProblemFault if the file does not compile.
    """
    try:
        arguments = driver_arguments(build_tools, directory.problem)
    except ToolMissing as missing:
        raise ProblemFault(f"reference.cuh cannot be compiled here: {missing}") from missing
    # Files by name and digest: two problems may hold the same files under other names.
    file_digests = [
        f"{name} {sha256((directory.problem.folder / name).read_bytes()).hexdigest()}"
        for name in sorted(directory.problem.files)
    ]
    digests = (file_digest.encode() for file_digest in file_digests)
    text = b"\0".join([read_drivers(), HEADER.read_bytes(), *digests])
    architecture = f"{build_tools.processor} {build_tools.gpu}"
    key = build_key(text, arguments, build_tools.tools, architecture, "")
    library = cache.get(key)
    if library is None:
        library = _compile_reference(directory, arguments, build_tools)
        cache.put(key, library)
    cache.close()
    native = _Library(seal_memory(library))
    return ProblemFunctions(native.generate, native.answer, native.check)


def _compile_reference(
    directory: RunDirectory, arguments: Sequence[str], build_tools: BuildTools
) -> bytes:
    folder = directory.folder / "native"
    folder.mkdir(mode=0o700)
    # Our files last: they replace files of the same name from the problem.
    problem_files = [directory.problem.folder / name for name in directory.problem.files]
    for path in (*problem_files, HEADER, *DRIVER.parent.iterdir()):
        shutil.copyfile(path, folder / path.name)
    output = folder / "reference.so"
    sources = [str(folder / name) for name in (REFERENCE, *directory.problem.native.sources)]
    command = [*arguments, f"-I{folder}", *sources, "-o", str(output)]
    environment = {**build_tools.environment, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        process = subprocess.run(
            command, env=environment, capture_output=True, timeout=BUILD_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"reference.cuh did not compile within {BUILD_S_MAX} s"
        raise ProblemFault(reason) from error
    if process.returncode:
        message = (process.stderr + process.stdout).decode(errors="replace")[:_MESSAGE_CHARS_MAX]
        raise ProblemFault(f"reference.cuh does not compile: {message}")
    return output.read_bytes()


class _Library:
    """The driver with the author's functions in it."""

    def __init__(self, descriptor: int) -> None:
        # The descriptor stays open: the loader identifies a library by its name, which contains it.
        self._library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        self._torch: Any = importlib.import_module("torch")
        self._dtypes = {code: getattr(self._torch, name, None) for name, code in DTYPES.items()}
        for name in ("wbr_generate", "wbr_answer", "wbr_leaf"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.wbr_said.restype = ctypes.c_char_p
        names = (ctypes.c_char_p * _ARGUMENTS_MAX)()
        count = self._library.wbr_names(names, _ARGUMENTS_MAX)
        self._names = [(names[index] or b"").decode() for index in range(count)]

    def generate(self, **args: Any) -> Any:
        """Generate the data of a case."""
        values = [args[name] for name in self._names]
        values = [int(value) if isinstance(value, bool) else value for value in values]
        texts = [str(value).encode() for value in values]
        return self._read_value(self._library.wbr_generate((ctypes.c_char_p * len(texts))(*texts)))

    def answer(self, data: Any) -> Any:
        """Return the reference's answer."""
        tensors, count, _alive = self._native_tensors(data)
        return self._read_value(self._library.wbr_answer(tensors, count))

    def check(self, data: Any, output: Any) -> tuple[bool, str]:
        """Return the verdict and message of check_implementation."""
        inputs, inputs_count, _inputs_alive = self._native_tensors(data)
        outputs, count, _outputs_alive = self._native_tensors(output)
        code = self._library.wbr_check(inputs, inputs_count, outputs, count)
        if code not in (_RIGHT, _WRONG):
            raise RuntimeError(self._error_message())
        return code == _RIGHT, self._error_message()

    def _read_value(self, pointer: int | None) -> tuple[Any, ...]:
        if not pointer:
            raise RuntimeError(self._error_message())
        value = ctypes.c_void_p(pointer)
        try:
            return tuple(self._leaf(value, i) for i in range(self._library.wbr_count(value)))
        finally:
            self._library.wbr_free(value)

    def _leaf(self, value: ctypes.c_void_p, index: int) -> Any:
        code, size = ctypes.c_int(), ctypes.c_int64()
        address = self._library.wbr_leaf(value, index, ctypes.byref(code), ctypes.byref(size))
        dtype = self._dtypes[code.value]
        if not size.value:
            return self._torch.empty(0, dtype=dtype, device=self._device_place())
        length = size.value * self._torch.empty(0, dtype=dtype).element_size()
        memory = bytearray(ctypes.string_at(address, length))
        return self._torch.frombuffer(memory, dtype=dtype).to(self._device_place())

    def _native_tensors(self, tensors: Sequence[Any]) -> tuple[Any, int, list[Any]]:
        """Return tensors as the driver reads them, their count, and what must stay alive."""
        contiguous = [tensor.detach().cpu().contiguous() for tensor in tensors]
        native: Any = (_Tensor * len(contiguous))()
        for target, tensor in zip(native, contiguous, strict=True):
            target.data = tensor.data_ptr()
            target.dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
            target.ndim = tensor.dim()
            target.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        return native, len(contiguous), contiguous

    def _device_place(self) -> Any:
        cuda = self._torch.cuda
        return f"cuda:{cuda.current_device()}" if cuda.is_available() else "cpu"

    def _error_message(self) -> str:
        message: bytes = self._library.wbr_said() or b""
        return message.decode(errors="replace")
