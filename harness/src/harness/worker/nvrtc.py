"""CUDA kernels without host code: compiled by NVRTC, launched through the CUDA driver."""

import ctypes
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.worker.build import Unusable

_DRIVER = "libcuda.so.1"


def compiled(library: str, source: str, options: Sequence[str]) -> tuple[str, bytes, bytes]:
    """How NVRTC ended, what it says of a source, and the cubin, b"" if it refuses the source.

    Errors: Unusable, of kind compile_error, if NVRTC itself does not work here.
    """
    lib = _opened(library)
    name = Path(source).name.encode()
    program = ctypes.c_void_p()
    text = Path(source).read_bytes()
    _require(lib, lib.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None))
    folder = f"-I{Path(source).parent}"
    asked = [one.encode() for one in (*options, folder)]
    status = lib.nvrtcCompileProgram(program, len(asked), (ctypes.c_char_p * len(asked))(*asked))
    said = _bytes(lib, program, lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog).rstrip(b"\0")
    cubin = b""
    if status == 0:
        cubin = _bytes(lib, program, lib.nvrtcGetCUBINSize, lib.nvrtcGetCUBIN)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    ended = f"exit code {status} ({lib.nvrtcGetErrorString(status).decode()})"
    return ended, said, cubin


class Launched:
    """The kernel `custom_kernel` of a cubin, with the launch that its source asks for.

    The kernel's arguments are the data of all inputs, then of all outputs, then the scalars: an
    integer as long long, a number as double, a bool as bool. `launch` is written as Python's
    keyword arguments grid, block (a number, or up to three) and shared (bytes), in terms of
    inputs, outputs and scalars; it is the submission's own code, as all of this process is.
    """

    def __init__(self, cubin: bytes, launch: str, driver: str = _DRIVER) -> None:
        try:
            self._cuda = ctypes.CDLL(driver)
            self._launch = compile(f"dict({launch})", "launch", "eval")
        except (OSError, SyntaxError) as error:
            raise Unusable("import_error", f"the kernel cannot be launched: {error}") from error
        torch: Any = importlib.import_module("torch")
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # makes the context that the module is loaded into
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check("cuModuleLoadData", ctypes.byref(module), cubin)
        found = ctypes.byref(self._function)
        self._check("cuModuleGetFunction", found, module, b"custom_kernel")

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[[bytes], None]:
        """A call on these tensors; it takes the scalars as a JSON list. Errors: Unusable."""
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*inputs, *outputs)]
        torch: Any = importlib.import_module("torch")
        is_cuda = any(tensor.is_cuda for tensor in outputs)

        def call(text: bytes) -> None:
            scalars = json.loads(text or b"[]")
            names = {"inputs": inputs, "outputs": outputs, "scalars": scalars}
            wish = eval(self._launch, names)  # noqa: S307  (as believed as the kernel beside it)
            stream = torch.cuda.current_stream().cuda_stream if is_cuda else None
            self._start(wish, [*pointers, *map(_scalar, scalars)], stream)

        return call

    def _start(self, wish: dict[str, Any], values: list[Any], stream: int | None) -> None:
        grid, block = _three(wish["grid"]), _three(wish["block"])
        places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        shared, on = int(wish.get("shared", 0)), ctypes.c_void_p(stream)
        self._check("cuLaunchKernel", self._function, *grid, *block, shared, on, places, None)

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status != 0:
            raise Unusable("exception", f"{name} failed with CUDA error {status}")


def _opened(library: str) -> Any:
    try:
        for builtins in sorted(Path(library).parent.glob("libnvrtc-builtins.so*")):
            # NVRTC opens it by its name alone, and finds it only if it is there already.
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        lib: Any = ctypes.CDLL(library)
    except OSError as error:
        raise Unusable("compile_error", f"NVRTC cannot be loaded here: {error}") from error
    lib.nvrtcGetErrorString.restype = ctypes.c_char_p
    return lib


def _bytes(lib: Any, program: Any, size_of: Any, get: Any) -> bytes:
    size = ctypes.c_size_t()
    _require(lib, size_of(program, ctypes.byref(size)))
    found = ctypes.create_string_buffer(size.value)
    _require(lib, get(program, found))
    return found.raw


def _require(lib: Any, status: int) -> None:
    if status != 0:
        reason = lib.nvrtcGetErrorString(status).decode()
        raise Unusable("compile_error", f"NVRTC failed: {reason}")


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_longlong(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    raise Unusable("import_error", f"a kernel cannot be given the scalar {value!r}")


def _three(value: Any) -> tuple[int, int, int]:
    given = (value,) if isinstance(value, int) else tuple(value)
    x, y, z = (*given, 1, 1, 1)[:3]
    return int(x), int(y), int(z)
