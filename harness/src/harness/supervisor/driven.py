"""An author's functions in C++: compiled behind a driver of ours, and called through ctypes.

It is the author's code as much as a reference.py is: it is compiled and run by the run's own
process, which has nothing to lose. Data and answers are tuples of flat tensors (wb_values.h).
"""

import ctypes
import importlib
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from harness.problem import Problem, ProblemFault
from harness.supervisor.forms import Functions
from harness.supervisor.home import Home
from harness.toolchains.cache import Cache, key_of, sealed
from harness.toolchains.command import BUILD_S_MAX, DRIVER, HEADER
from harness.toolchains.plan import ToolMissing, Workshop, driven, drivers
from harness.worker.protocol import DTYPES

REFERENCE = "wb_reference.cpp"
_ARGUMENTS_MAX = 64
_SAID_CHARS = 1500
_RIGHT, _WRONG = 0, 1


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


def functions(home: Home, workshop: Workshop, cache: Cache) -> Functions:
    """The functions of a problem's reference.cuh; before any of it runs the cache is let go.

    What is in there is loaded by the runs of others. Errors: ProblemFault, if it does not compile.
    """
    try:
        arguments = driven(workshop, home.problem)
    except ToolMissing as missing:
        raise ProblemFault(f"reference.cuh cannot be compiled here: {missing}") from missing
    # Files by name and digest: of two problems with the same texts one may name them otherwise.
    brought = [f"{name} {sha256(data).hexdigest()}" for name, data in _texts(home.problem)]
    text = b"\0".join([drivers(), HEADER.read_bytes(), *(one.encode() for one in brought)])
    key = key_of(text, arguments, workshop.tools, f"{workshop.processor} {workshop.gpu}", "")
    built = cache.get(key)
    if built is None:
        built = _compiled(home, arguments, workshop)
        cache.put(key, built)
    cache.close()
    return _Library(sealed(built)).functions()


def _texts(problem: Problem) -> list[tuple[str, bytes]]:
    return [(name, (problem.folder / name).read_bytes()) for name in sorted(problem.files)]


def _compiled(home: Home, arguments: Sequence[str], workshop: Workshop) -> bytes:
    folder = home.folder / "native"
    folder.mkdir(mode=0o700)
    # Ours last, for they stand in for what the problem brings.
    brought = [home.problem.folder / name for name in home.problem.files]
    for path in (*brought, HEADER, *DRIVER.parent.iterdir()):
        shutil.copyfile(path, folder / path.name)
    output = folder / "reference.so"
    sources = [str(folder / name) for name in (REFERENCE, *home.problem.native.sources)]
    command = [*arguments, f"-I{folder}", *sources, "-o", str(output)]
    environment = {**workshop.environment, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, timeout=BUILD_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"reference.cuh did not compile within {BUILD_S_MAX} s"
        raise ProblemFault(reason) from error
    if ended.returncode:
        said = (ended.stderr + ended.stdout).decode(errors="replace")[:_SAID_CHARS]
        raise ProblemFault(f"reference.cuh does not compile: {said}")
    return output.read_bytes()


class _Library:
    """The driver with the author's functions in it."""

    def __init__(self, descriptor: int) -> None:
        # The descriptor stays open: the loader knows a library by its name, which holds the number.
        self._library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        self._torch: Any = importlib.import_module("torch")
        self._dtypes = {code: getattr(self._torch, name, None) for name, code in DTYPES.items()}
        for name in ("wbr_generate", "wbr_answer", "wbr_leaf"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.wbr_said.restype = ctypes.c_char_p
        names = (ctypes.c_char_p * _ARGUMENTS_MAX)()
        count = self._library.wbr_names(names, _ARGUMENTS_MAX)
        self._names = [(names[index] or b"").decode() for index in range(count)]

    def functions(self) -> Functions:
        """In the form that every other author's code has."""
        return Functions(self.generate, self.answer, self.check)

    def generate(self, **args: Any) -> Any:
        """The data of a case."""
        texts = [_text(args[name]) for name in self._names]
        return self._taken(self._library.wbr_generate((ctypes.c_char_p * len(texts))(*texts)))

    def answer(self, data: Any) -> Any:
        """The reference's answer."""
        given, count, _kept = self._given(data)
        return self._taken(self._library.wbr_answer(given, count))

    def check(self, data: Any, output: Any) -> tuple[bool, str]:
        """What check_implementation says of an answer."""
        inputs, inputs_count, _kept = self._given(data)
        outputs, count, _kept_too = self._given(output)
        code = self._library.wbr_check(inputs, inputs_count, outputs, count)
        if code not in (_RIGHT, _WRONG):
            raise RuntimeError(self._said())
        return code == _RIGHT, self._said()

    def _taken(self, found: int | None) -> tuple[Any, ...]:
        """The tensors of a value, which is let go."""
        if not found:
            raise RuntimeError(self._said())
        value = ctypes.c_void_p(found)
        try:
            return tuple(self._leaf(value, i) for i in range(self._library.wbr_count(value)))
        finally:
            self._library.wbr_free(value)

    def _leaf(self, value: ctypes.c_void_p, index: int) -> Any:
        code, size = ctypes.c_int(), ctypes.c_int64()
        at = self._library.wbr_leaf(value, index, ctypes.byref(code), ctypes.byref(size))
        dtype = self._dtypes[code.value]
        if not size.value:
            return self._torch.empty(0, dtype=dtype, device=self._place())
        length = size.value * self._torch.empty(0, dtype=dtype).element_size()
        memory = bytearray(ctypes.string_at(at, length))
        return self._torch.frombuffer(memory, dtype=dtype).to(self._place())

    def _given(self, tensors: Sequence[Any]) -> tuple[Any, int, list[Any]]:
        """Tensors as the driver reads them, how many, and what must live while it does."""
        kept = [one.detach().cpu().contiguous() for one in tensors]
        found: Any = (_Tensor * len(kept))()
        for place, tensor in zip(found, kept, strict=True):
            place.data = tensor.data_ptr()
            place.dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
            place.ndim = tensor.dim()
            place.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        return found, len(kept), kept

    def _place(self) -> Any:
        cuda = self._torch.cuda
        return f"cuda:{cuda.current_device()}" if cuda.is_available() else "cpu"

    def _said(self) -> str:
        said: bytes = self._library.wbr_said() or b""
        return said.decode(errors="replace")


def _text(value: Any) -> bytes:
    """An argument as the driver parses it."""
    return str(int(value) if isinstance(value, bool) else value).encode()
