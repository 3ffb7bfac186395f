"""The part of CUDA's driver that the referee needs, called through ctypes, and our kernels.

NVRTC compiles them for the device at hand, and they are loaded before anything is timed: no
toolkit, no headers, a few hundredths of a second.
"""

import ctypes
import ctypes.util
import sys
from pathlib import Path
from typing import Any

from harness.devices.cuda.rules import architecture_name
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

# The types of the arguments, by exported name: without them ctypes would truncate pointers.
# Checked against cuda.h of CUDA 13.0.
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
    "cuMemGetInfo_v2": (POINTER, POINTER),
    "cuMemsetD32Async": (_ADDRESS, _U32, _SIZE, POINTER),
    "cuStreamCreate": (POINTER, _U32),
    "cuStreamQuery": (POINTER,),
    "cuStreamWaitValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamWriteValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuEventCreate": (POINTER, _U32),
    "cuEventRecord": (POINTER, POINTER),
    "cuEventQuery": (POINTER,),
    "cuEventElapsedTime": (POINTER, POINTER, POINTER),
}

# Where the wheels of CUDA 13 and 12 and a toolkit install it.
_WHEELS = ("nvidia/cu*/lib", "nvidia/cuda_nvrtc/lib")
_TOOLKITS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")
_LOG_BYTES_MAX = 64 * 1024

NAMES = {
    "probe": (
        "k_null",
        "k_spin_ns",
        "k_spin_cycles",
        "k_clock",
        "k_step",
        "k_copy",
        "k_fma",
        "k_flush_write",
        "k_flush_read",
    ),
    "gate": ("k_stamp", "k_blanket", "k_witness", "k_recall"),
}
FOLDER = "kernels"


class DriverError(DeviceFault):
    """The driver refused a call: `name` is the function, `error` its error."""

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"the CUDA driver answered {name} with {error}")
        self.name = name
        self.error = error


class Driver:
    """The initialised driver library. Every method can raise DeviceFault."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library)
            for name, types in SIGNATURES.items():
                getattr(self._library, name).argtypes = types
        except (OSError, AttributeError) as error:
            raise DeviceFault(f"CUDA's driver cannot be used: {error}") from error
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function by its exported name."""
        self._require(name, self.status(name, *arguments))

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function and return its status, for callers that handle failures."""
        return int(getattr(self._library, name)(*arguments))

    def is_over(self, event: ctypes.c_void_p) -> bool:
        """Return whether everything before an event is done. Raises DriverError if it failed."""
        status = self.status("cuEventQuery", event)
        if status == NOT_READY:
            return False
        self._require("cuEventQuery", status)
        return True

    def number(self, name: str, *arguments: Any) -> int:
        """Return the int that a call writes to its first argument."""
        value = ctypes.c_int()
        self(name, ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, attribute: int, device: int) -> int:
        """Return an attribute of a device."""
        return self.number("cuDeviceGetAttribute", attribute, device)

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Return the pointer that a call writes to its first argument."""
        value = ctypes.c_void_p()
        self(name, ctypes.byref(value), *arguments)
        return value

    def milliseconds(self, before: ctypes.c_void_p, after: ctypes.c_void_p) -> float:
        """Return the time between two completed events."""
        value = ctypes.c_float()
        self("cuEventElapsedTime", ctypes.byref(value), before, after)
        return value.value

    def enter(self, device: int) -> None:
        """Make the device's primary context, which torch uses too, current in this thread."""
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
        """Let a block use all shared memory; return the dynamic bytes to request."""
        total = self._driver.attribute(SHARED_BYTES_MAX, device)
        static = self._driver.number("cuFuncGetAttribute", FUNCTION_SHARED_BYTES, self._function)
        self._driver(
            "cuFuncSetAttribute", self._function, FUNCTION_DYNAMIC_BYTES_MAX, total - static
        )
        return total - static

    def __call__(
        self, stream: int, grid: tuple[int, int], *arguments: Any, shared_bytes: int = 0
    ) -> None:
        """Enqueue it with this many blocks and threads; arguments are ctypes values."""
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


class Nvrtc:
    """The compiler's library. Raises DeviceFault if there is none."""

    def __init__(self, path: str = "") -> None:
        self.path = path or _find_library()
        try:
            # NVRTC opens its builtins by name, and finds them only if they are loaded already.
            for builtins in sorted(Path(self.path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            raise DeviceFault(f"NVRTC cannot be loaded: {error}") from error
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, source: str, name: str, architecture: str) -> bytes:
        """Return machine code for an architecture such as sm_90a.

        Raises DeviceFault with the compiler's log.
        """
        program = ctypes.c_void_p()
        text = source.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name.encode(), 0, None, None)
        options = (f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
        try:
            array = (ctypes.c_char_p * len(options))(*options)
            if self._library.nvrtcCompileProgram(program, len(options), array):
                log = self._read(program, "ProgramLog")[:_LOG_BYTES_MAX].decode(errors="replace")
                raise DeviceFault(f"{name} does not compile for {architecture}: {log}")
            return self._read(program, "CUBIN")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, text)
        return text.raw

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            text = self._library.nvrtcGetErrorString(status).decode()
            raise DeviceFault(f"NVRTC answered {name} with {text}")


def _find_library() -> str:
    wheels = [Path(entry).glob(pattern) for entry in sys.path for pattern in _WHEELS]
    folders = [folder for found_folders in wheels for folder in sorted(found_folders, reverse=True)]
    for folder in (*folders, *map(Path, _TOOLKITS)):
        names = [path for path in sorted(folder.glob("libnvrtc.so.*")) if "alt" not in path.name]
        if names:
            return str(names[-1])
    if name := ctypes.util.find_library("nvrtc"):
        return name
    raise DeviceFault("NVRTC was not found: install nvidia-cuda-nvrtc, or a CUDA toolkit")


class Kernels:
    """The kernels by name. Raises DeviceFault if they cannot be compiled or loaded."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.compute = (
            driver.attribute(COMPUTE_MAJOR, device),
            driver.attribute(COMPUTE_MINOR, device),
        )
        compiler = Nvrtc()
        self._kernels: dict[str, Kernel] = {}
        for file, names in NAMES.items():
            source = (Path(__file__).parent / FOLDER / f"{file}.cu").read_text(encoding="utf-8")
            code = compiler.compile(source, f"{file}.cu", architecture_name(self.compute))
            module = driver.pointer("cuModuleLoadData", ctypes.c_char_p(code))
            self._kernels |= {name: Kernel(driver, module, name) for name in names}
        self.blanket_bytes = self["k_blanket"].take_all_shared(device)

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name."""
        return self._kernels[name]
