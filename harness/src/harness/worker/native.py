"""A native submission's function, called through the C interface of warpboard.h."""

import ctypes
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from harness.worker.build import Unusable
from harness.worker.nvrtc import Launched
from harness.worker.protocol import DTYPES

_ERROR_BYTES_MAX = 1000

Call = Callable[[bytes], bytes | None]


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


class Native:
    """The custom_kernel of a shared object."""

    def __init__(self, library: ctypes.CDLL, function: Any) -> None:
        self._library = library
        self._function = function

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Call:
        """A call on these tensors, which a case keeps; it takes the scalars as a JSON list.

        Errors of the call: Unusable, of kind exception, with the code that was returned.
        """
        given, taken = _tensors(inputs), _tensors(outputs)
        stream = _stream([*inputs, *outputs])

        def call(scalars: bytes) -> None:
            text = scalars or b"[]"
            code = self._function(given, len(given), taken, len(taken), text, stream())
            if code != 0:
                raise Unusable("exception", f"custom_kernel returned {code}{self._said()}")

        return call

    def _said(self) -> str:
        """What the optional wb_error() says, bounded."""
        try:
            error = self._library.wb_error
        except AttributeError:
            return ""
        error.restype = ctypes.c_char_p
        text: bytes | None = error()
        return f": {text[:_ERROR_BYTES_MAX].decode(errors='replace')}" if text else ""


def load(path: str) -> Native:
    """The native submission in a shared object. Errors: Unusable, of kind import_error."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Unusable("import_error", f"the built submission cannot be loaded: {error}") from error
    try:
        function = library.custom_kernel
    except AttributeError:
        reason = 'the submission defines no extern "C" custom_kernel: include "warpboard.h"'
        raise Unusable("import_error", reason) from None
    function.restype = ctypes.c_int
    many = ctypes.POINTER(_Tensor)
    function.argtypes = (
        many,
        ctypes.c_int,
        many,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_void_p,
    )
    return Native(library, function)


def built(descriptor: int, launch: str = "") -> Native | Launched:
    """What a builder made, from a memory: a shared object, or with `launch` the cubin of a kernel.

    The descriptor stays open: the loader knows libraries by their names, and this one's number is
    in its name, which no other may have. Errors: Unusable, of kind import_error.
    """
    if not launch:
        # No file system is needed that may be executed from.
        return load(f"/proc/self/fd/{descriptor}")
    return Launched(os.pread(descriptor, os.fstat(descriptor).st_size, 0), launch)


def _tensors(tensors: Sequence[Any]) -> Any:
    found: Any = (_Tensor * len(tensors))()
    for place, tensor in zip(found, tensors, strict=True):
        place.data = tensor.data_ptr()
        place.dtype = _code_of(tensor.dtype)
        place.ndim = tensor.dim()
        # ctypes keeps the arrays alive for as long as the structures that point to them.
        place.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        place.strides = (ctypes.c_int64 * tensor.dim())(*tensor.stride())
    found.kept = list(tensors)  # and so must their memories live
    return found


def _code_of(dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Unusable("import_error", f"a native submission cannot be given {name} tensors")
    return DTYPES[name]


def _stream(tensors: Sequence[Any]) -> Callable[[], int | None]:
    """Where the current stream of the tensors' GPU is found; a processor has none."""
    if not any(tensor.is_cuda for tensor in tensors):
        return lambda: None
    torch: Any = importlib.import_module("torch")
    return lambda: int(torch.cuda.current_stream().cuda_stream)
