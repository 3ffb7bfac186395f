"""CUDA's driver, called without any library between: what the referee needs of it, no more."""

import ctypes
from typing import Any

from harness.devices.device import DeviceFault

SUCCESS = 0
NOT_READY = 600

POINTER = ctypes.c_void_p
_ADDRESS = ctypes.c_uint64
_U32 = ctypes.c_uint
_U64 = ctypes.c_ulonglong
_SIZE = ctypes.c_size_t
_INT = ctypes.c_int

MULTIPROCESSORS = 16
L2_BYTES = 38
COMPUTE_MAJOR = 75
COMPUTE_MINOR = 76
SHARED_BYTES_MAX = 97
MAPS_MEMORY = 102
SHARES_DESCRIPTORS = 103

FUNCTION_SHARED_BYTES = 1
FUNCTION_DYNAMIC_BYTES_MAX = 8

WAIT_EQUAL = 1
NON_BLOCKING = 1

# The types of the arguments, by the name that the library exports: ctypes would cut a pointer
# short if it were not told. Checked against cuda.h of CUDA 13.0.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U32,),
    "cuDriverGetVersion": (POINTER,),
    "cuGetErrorName": (_INT, POINTER),
    "cuDeviceGet": (POINTER, _INT),
    "cuDeviceGetCount": (POINTER,),
    "cuDeviceGetName": (POINTER, _INT, _INT),
    "cuDeviceGetUuid_v2": (POINTER, _INT),
    "cuDeviceTotalMem_v2": (POINTER, _INT),
    "cuDeviceGetAttribute": (POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (POINTER, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxSetCurrent": (POINTER,),
    "cuCtxResetPersistingL2Cache": (),
    "cuModuleLoadData": (POINTER, POINTER),
    "cuModuleGetFunction": (POINTER, POINTER, ctypes.c_char_p),
    "cuFuncGetAttribute": (POINTER, _INT, POINTER),
    "cuFuncSetAttribute": (POINTER, _INT, _INT),
    "cuLaunchKernel": (POINTER, *[_U32] * 7, POINTER, POINTER, POINTER),
    "cuMemGetAllocationGranularity": (POINTER, POINTER, _INT),
    "cuMemCreate": (POINTER, _SIZE, POINTER, _U64),
    "cuMemExportToShareableHandle": (POINTER, _U64, _INT, _U64),
    "cuMemAddressReserve": (POINTER, _SIZE, _SIZE, _ADDRESS, _U64),
    "cuMemMap": (_ADDRESS, _SIZE, _SIZE, _U64, _U64),
    "cuMemSetAccess": (_ADDRESS, _SIZE, POINTER, _SIZE),
    "cuMemUnmap": (_ADDRESS, _SIZE),
    "cuMemAddressFree": (_ADDRESS, _SIZE),
    "cuMemRelease": (_U64,),
    "cuMemsetD32Async": (_ADDRESS, _U32, _SIZE, POINTER),
    "cuMemcpyDtoH_v2": (POINTER, _ADDRESS, _SIZE),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, _SIZE, POINTER),
    "cuStreamCreate": (POINTER, _U32),
    "cuStreamDestroy_v2": (POINTER,),
    "cuStreamQuery": (POINTER,),
    "cuStreamWaitValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamWriteValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuEventCreate": (POINTER, _U32),
    "cuEventDestroy_v2": (POINTER,),
    "cuEventRecord": (POINTER, POINTER),
    "cuEventQuery": (POINTER,),
    "cuEventElapsedTime": (POINTER, POINTER, POINTER),
}


class DriverError(DeviceFault):
    """The driver refused: `name` is what was asked of it, `error` its own word."""

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"the CUDA driver answered {name} with {error}")
        self.name = name
        self.error = error


class Driver:
    """The driver's library, initialised. Errors: DeviceFault, from any method."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library)
            for name, types in SIGNATURES.items():
                getattr(self._library, name).argtypes = types
        except (OSError, AttributeError) as error:
            raise DeviceFault(f"CUDA's driver cannot be used: {error}") from error
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: Any) -> None:
        """One call, by its exported name."""
        self._require(name, self.status(name, *arguments))

    def status(self, name: str, *arguments: Any) -> int:
        """One call whose failure the caller wants to look at."""
        return int(getattr(self._library, name)(*arguments))

    def is_over(self, event: ctypes.c_void_p) -> bool:
        """Whether what an event was recorded after is done. Errors: DriverError, if it failed."""
        status = self.status("cuEventQuery", event)
        if status == NOT_READY:
            return False
        self._require("cuEventQuery", status)
        return True

    def number(self, name: str, *arguments: Any) -> int:
        """What a call writes to its first argument, an int."""
        value = ctypes.c_int()
        self(name, ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, which: int, device: int) -> int:
        """An attribute of a device."""
        return self.number("cuDeviceGetAttribute", which, device)

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """What a call writes to its first argument, a pointer."""
        value = ctypes.c_void_p()
        self(name, ctypes.byref(value), *arguments)
        return value

    def milliseconds(self, before: ctypes.c_void_p, after: ctypes.c_void_p) -> float:
        """The time between two events that are over."""
        value = ctypes.c_float()
        self("cuEventElapsedTime", ctypes.byref(value), before, after)
        return value.value

    def enter(self, device: int) -> None:
        """Makes the device's primary context, which torch uses too, that of this thread."""
        self("cuCtxSetCurrent", self.pointer("cuDevicePrimaryCtxRetain", device))

    def _require(self, name: str, status: int) -> None:
        if status != SUCCESS:
            raise DriverError(name, self._name_of(status))

    def _name_of(self, status: int) -> str:
        text = ctypes.c_char_p()
        if self.status("cuGetErrorName", status, ctypes.byref(text)) or text.value is None:
            return f"error {status}"
        return text.value.decode()


class Kernel:
    """A kernel of a loaded module."""

    def __init__(self, driver: Driver, module: ctypes.c_void_p, name: str) -> None:
        self._driver = driver
        self._function = driver.pointer("cuModuleGetFunction", module, name.encode())

    def take_all_shared(self, device: int) -> int:
        """Lets a block use all the shared memory there is; returns the dynamic bytes to ask for."""
        most = self._driver.attribute(SHARED_BYTES_MAX, device)
        own = self._driver.number("cuFuncGetAttribute", FUNCTION_SHARED_BYTES, self._function)
        self._driver("cuFuncSetAttribute", self._function, FUNCTION_DYNAMIC_BYTES_MAX, most - own)
        return most - own

    def __call__(
        self, stream: int, grid: tuple[int, int], *arguments: Any, shared_bytes: int = 0
    ) -> None:
        """Enqueues it with so many blocks of so many threads; arguments are ctypes values."""
        blocks, threads = grid
        addresses = [ctypes.addressof(argument) for argument in arguments]
        array = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self._driver(
            "cuLaunchKernel",
            self._function,
            *(blocks, 1, 1, threads, 1, 1, shared_bytes),
            stream,
            array,
            None,
        )
