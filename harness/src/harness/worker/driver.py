"""What the guest needs of CUDA's driver: memory from a descriptor, and two words on a stream.

A small copy of what the referee has, on purpose: the guest imports nothing of the trusted side.
"""

import ctypes
import os
from typing import Any

POINTER = ctypes.c_void_p
_ADDRESS = ctypes.c_uint64
_U32 = ctypes.c_uint
_U64 = ctypes.c_ulonglong
_SIZE = ctypes.c_size_t

_DEVICE = 1
_DESCRIPTOR = 1
_READ_WRITE = 3
_WAIT_EQUAL = 1

# Checked against cuda.h of CUDA 13.0; without them ctypes would cut pointers short.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuMemImportFromShareableHandle": (POINTER, POINTER, ctypes.c_int),
    "cuMemAddressReserve": (POINTER, _SIZE, _SIZE, _ADDRESS, _U64),
    "cuMemMap": (_ADDRESS, _SIZE, _SIZE, _U64, _U64),
    "cuMemSetAccess": (_ADDRESS, _SIZE, POINTER, _SIZE),
    "cuMemRelease": (_U64,),
    "cuStreamWaitValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamWriteValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamCreate": (POINTER, _U32),
    "cuEventCreate": (POINTER, _U32),
    "cuEventRecord": (POINTER, POINTER),
    "cuStreamWaitEvent": (POINTER, POINTER, _U32),
}


class Refused(RuntimeError):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The driver said no."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Driver:
    """The driver's library, in the context that torch has opened. Errors: Refused, OSError."""

    def __init__(self, device: int = 0, library: str = "libcuda.so.1") -> None:
        self._library = ctypes.CDLL(library)
        self._device = device
        for name, types in SIGNATURES.items():
            getattr(self._library, name).argtypes = types

    def map(self, descriptor: int, size: int) -> int:
        """Where the memory of a descriptor now lies; the descriptor is closed."""
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        try:
            self._call(
                "cuMemImportFromShareableHandle", ctypes.byref(handle), descriptor, _DESCRIPTOR
            )
        finally:
            os.close(descriptor)
        self._call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        self._call("cuMemMap", address.value, size, 0, handle.value, 0)
        access = Access(_Location(_DEVICE, self._device), _READ_WRITE)
        self._call("cuMemSetAccess", address.value, size, ctypes.byref(access), 1)
        self._call("cuMemRelease", handle.value)
        return address.value

    def accepts_words(self, stream: int, address: int) -> bool:
        """Whether a stream can write a word, as it will have to."""
        return not self._status("cuStreamWriteValue32_v2", stream, address, 0, 0)

    def wait(self, stream: int, address: int, word: int) -> None:
        """Enqueues a wait until a word is there."""
        self._call("cuStreamWaitValue32_v2", stream, address, word, _WAIT_EQUAL)

    def write(self, stream: int, address: int, word: int) -> None:
        """Enqueues the writing of a word."""
        self._call("cuStreamWriteValue32_v2", stream, address, word, 0)

    def stream(self) -> int:
        """A stream that the legacy stream waits for, and that waits for it."""
        return self._made("cuStreamCreate", 0)

    def event(self) -> int:
        """An event."""
        return self._made("cuEventCreate", 2)

    def follow(self, stream: int, event: int, first: int) -> None:
        """Makes what comes on a stream wait for what another holds now."""
        self._call("cuEventRecord", event, first)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def _made(self, name: str, flags: int) -> int:
        value = ctypes.c_void_p()
        self._call(name, ctypes.byref(value), flags)
        return value.value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        if status := self._status(name, *arguments):
            raise Refused(f"the CUDA driver answered {name} with error {status}")

    def _status(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))
