"""Calls native submissions: through the C interface of warpboard.h, or by NVRTC and the driver.

CUDA kernels without host code are compiled by NVRTC and launched through the CUDA driver.
"""

import ctypes
import importlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.worker.protocol import DTYPES, SubmissionFailure

_DRIVER = "libcuda.so.1"

_ERROR_BYTES_MAX = 1000

# Separates a cubin from its PTX in a build result; PTX is text and does not contain it.
_PTX_MARK = b"\0PTX\0"

Call = Callable[[bytes], bytes | None]


def compile_source(library: str, source: str, options: Sequence[str]) -> tuple[str, bytes, bytes]:
    """Compile a source; return how NVRTC ended, its messages, and the build result.

    The result is the cubin with its PTX, for `split_build_result`; b"" on failure. Raises
    SubmissionFailure of kind compile_error if NVRTC itself does not work here.
    """
    lib = _open_library(library)
    name = Path(source).name.encode()
    program = ctypes.c_void_p()
    text = Path(source).read_bytes()
    _require(lib, lib.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None))
    folder = f"-I{Path(source).parent}"
    encoded_options = [option.encode() for option in (*options, folder)]
    status = lib.nvrtcCompileProgram(
        program, len(encoded_options), (ctypes.c_char_p * len(encoded_options))(*encoded_options)
    )
    messages = _read_bytes(lib, program, "ProgramLog").rstrip(b"\0")
    built = b""
    if status == 0:
        ptx = _read_bytes(lib, program, "PTX").rstrip(b"\0")
        built = _read_bytes(lib, program, "CUBIN") + _PTX_MARK + ptx
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    ending = f"exit code {status} ({lib.nvrtcGetErrorString(status).decode()})"
    return ending, messages, built


def split_build_result(built: bytes) -> tuple[bytes, bytes]:
    r"""Return the cubin and the PTX of a kernel that NVRTC compiled.

    >>> split_build_result(b"cubin\0PTX\0.version 9.2")
    (b'cubin', b'.version 9.2')
    """
    cubin, _, ptx = built.rpartition(_PTX_MARK)
    return cubin, ptx


class CubinKernel:
    """The kernel `custom_kernel` of a cubin, with the launch that its source requests.

    The kernel's arguments are the data of all inputs, then of all outputs, then the scalars: an
    integer as long long, a number as double, a bool as bool. `launch` is written as Python's
    keyword arguments grid, block (a number, or up to three), shared (bytes) and args (a tuple of
    further arguments), in terms of inputs, outputs and scalars; it is the submission's own code, as
    all of this process is.
    """

    def __init__(self, cubin: bytes, launch: str, driver: str = _DRIVER) -> None:
        try:
            self._cuda = ctypes.CDLL(driver)
            self._launch = compile(f"dict({launch})", "launch", "eval")
        except (OSError, SyntaxError) as error:
            reason = f"the kernel cannot be launched: {error}"
            raise SubmissionFailure("import_error", reason) from error
        torch: Any = importlib.import_module("torch")
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # creates the context for the module
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check("cuModuleLoadData", ctypes.byref(module), cubin)
        function_pointer = ctypes.byref(self._function)
        self._check("cuModuleGetFunction", function_pointer, module, b"custom_kernel")

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[[bytes], None]:
        """Return a call on these tensors, which takes JSON scalars. Raises SubmissionFailure."""
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*inputs, *outputs)]
        torch: Any = importlib.import_module("torch")
        is_cuda = any(tensor.is_cuda for tensor in outputs)

        def call(text: bytes) -> None:
            scalars = json.loads(text or b"[]")
            names = {"inputs": inputs, "outputs": outputs, "scalars": scalars}
            launch = eval(self._launch, names)  # noqa: S307  (trusted as little as the kernel)
            stream = torch.cuda.current_stream().cuda_stream if is_cuda else None
            values = map(_to_ctypes, (*scalars, *launch.get("args", ())))
            self._start(launch, [*pointers, *values], stream)

        return call

    def _start(self, launch: dict[str, Any], values: list[Any], stream: int | None) -> None:
        grid, block = _three_dimensions(launch["grid"]), _three_dimensions(launch["block"])
        places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        shared, stream_pointer = int(launch.get("shared", 0)), ctypes.c_void_p(stream)
        self._check(
            "cuLaunchKernel", self._function, *grid, *block, shared, stream_pointer, places, None
        )

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status != 0:
            raise SubmissionFailure("exception", f"{name} failed with CUDA error {status}")


def _open_library(library: str) -> Any:
    try:
        for builtins in sorted(Path(library).parent.glob("libnvrtc-builtins.so*")):
            # NVRTC opens it by name alone, and finds it only if it is loaded already.
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        lib: Any = ctypes.CDLL(library)
    except OSError as error:
        raise SubmissionFailure("compile_error", f"NVRTC cannot be loaded here: {error}") from error
    lib.nvrtcGetErrorString.restype = ctypes.c_char_p
    return lib


def _read_bytes(lib: Any, program: Any, kind: str) -> bytes:
    size = ctypes.c_size_t()
    _require(lib, getattr(lib, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _require(lib, getattr(lib, f"nvrtcGet{kind}")(program, buffer))
    return buffer.raw


def _require(lib: Any, status: int) -> None:
    if status != 0:
        reason = lib.nvrtcGetErrorString(status).decode()
        raise SubmissionFailure("compile_error", f"NVRTC failed: {reason}")


def _to_ctypes(value: Any) -> Any:
    types: dict[type, Any] = {bool: ctypes.c_bool, int: ctypes.c_longlong, float: ctypes.c_double}
    if kind := types.get(type(value)):
        return kind(value)
    raise SubmissionFailure("import_error", f"a kernel cannot receive the scalar {value!r}")


def _three_dimensions(value: Any) -> tuple[int, int, int]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


class NativeKernel:
    """The custom_kernel of a shared object."""

    def __init__(self, library: ctypes.CDLL, function: Any) -> None:
        self._library = library
        self._function = function

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Call:
        """Return a call on these tensors, which a case keeps; it takes the scalars as JSON.

        The call raises SubmissionFailure of kind exception, with the code that was returned.
        """
        native_inputs, native_outputs = _native_tensors(inputs), _native_tensors(outputs)
        stream = _stream([*inputs, *outputs])

        def call(scalars: bytes) -> None:
            text = scalars or b"[]"
            tensors = (native_inputs, len(inputs), native_outputs, len(outputs))
            if code := self._function(*tensors, text, stream()):
                reason = f"custom_kernel returned {code}{self._error_text()}"
                raise SubmissionFailure("exception", reason)

        return call

    def _error_text(self) -> str:
        """Return what the optional wb_error() reports, bounded."""
        try:
            error = self._library.wb_error
        except AttributeError:
            return ""
        error.restype = ctypes.c_char_p
        text: bytes | None = error()
        return f": {text[:_ERROR_BYTES_MAX].decode(errors='replace')}" if text else ""


def load_library(path: str) -> NativeKernel:
    """Load the native submission in a shared object.

    Raises SubmissionFailure of kind import_error.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        reason = f"the built submission cannot be loaded: {error}"
        raise SubmissionFailure("import_error", reason) from error
    try:
        function = library.custom_kernel
    except AttributeError:
        reason = 'the submission defines no extern "C" custom_kernel: include "warpboard.h"'
        raise SubmissionFailure("import_error", reason) from None
    function.restype = ctypes.c_int
    tensors = (ctypes.POINTER(_Tensor), ctypes.c_int)
    function.argtypes = (*tensors, *tensors, ctypes.c_char_p, ctypes.c_void_p)
    return NativeKernel(library, function)


def load_built_kernel(descriptor: int, launch: str = "") -> NativeKernel | CubinKernel:
    """Load a build result from a memory: a shared object, or with `launch` a kernel's cubin.

    The descriptor stays open: the loader identifies libraries by name, and the name contains the
    descriptor's number. Raises SubmissionFailure of kind import_error.
    """
    if not launch:
        # This needs no file system that allows execution.
        return load_library(f"/proc/self/fd/{descriptor}")
    cubin, _ = split_build_result(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    return CubinKernel(cubin, launch)


def _native_tensors(tensors: Sequence[Any]) -> Any:
    array: Any = (_Tensor * len(tensors))()
    for target, tensor in zip(array, tensors, strict=True):
        target.data = tensor.data_ptr()
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            reason = f"a native submission cannot receive {dtype} tensors"
            raise SubmissionFailure("import_error", reason)
        target.dtype = DTYPES[dtype]
        target.ndim = tensor.dim()
        # ctypes keeps the arrays alive for as long as the structures that point to them.
        target.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        target.strides = (ctypes.c_int64 * tensor.dim())(*tensor.stride())
    array.kept = list(tensors)  # keeps the tensors' memories alive too
    return array


def _stream(tensors: Sequence[Any]) -> Callable[[], int | None]:
    """Return a function for the current stream of the tensors' GPU; None on a processor."""
    if not any(tensor.is_cuda for tensor in tensors):
        return lambda: None
    torch: Any = importlib.import_module("torch")
    return lambda: int(torch.cuda.current_stream().cuda_stream)
