"""How a device is, by NVML: clocks, heat, power, errors, and who else computes on it."""

import ctypes
import os
from pathlib import Path
from typing import Any, Self

from harness.devices.cuda import rules
from harness.devices.device import DeviceFault

# Those of runs and workers, where the harness is root.
HARNESS_UIDS = range(64000, 65000)
MPS_SERVER = "nvidia-cuda-mps"

_SM, _MEMORY = 1, 2
_UNCORRECTED, _SINCE_START = 1, 0
_PROCESSES_MAX = 256
_TOO_SMALL = 7
_NOT_SUPPORTED = 3


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Monitor:
    """NVML's view of one device; it opens no context. Errors: DeviceFault, if there is no NVML."""

    def __init__(self, uuid: str, library: str = "libnvidia-ml.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceFault(f"NVML cannot be loaded: {error}") from error
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        found = ctypes.byref(self._handle)
        self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.nvmlShutdown()

    def vitals(self) -> rules.Vitals:
        """The device now. Whoever computes on it and is not of the harness is foreign."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory))
        return rules.Vitals(
            sm_mhz=self._number("nvmlDeviceGetClockInfo", _SM),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", _MEMORY),
            temperature_c=self._number("nvmlDeviceGetTemperature", 0),
            power_w=self._number("nvmlDeviceGetPowerUsage") / 1000,
            reasons=self._long("nvmlDeviceGetCurrentClocksThrottleReasons"),
            ecc_errors=self._long("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_START),
            used_bytes=memory.used,
            foreign=tuple(pid for pid in self._processes() if _is_foreign(pid)),
        )

    def _processes(self) -> list[int]:
        """The pids as NVML sees them; inside a pid namespace they may be other numbers, or none."""
        count = ctypes.c_uint(_PROCESSES_MAX)
        found = (_Process * _PROCESSES_MAX)()
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        status = self._status(name, self._handle, ctypes.byref(count), found)
        if status not in (0, _TOO_SMALL, _NOT_SUPPORTED):
            self._fail(name, status)
        return [found[index].pid for index in range(min(count.value, _PROCESSES_MAX))] * (
            not status
        )

    def _number(self, name: str, *which: int) -> int:
        return self._read(name, ctypes.c_uint(), *which)

    def _long(self, name: str, *which: int) -> int:
        return self._read(name, ctypes.c_ulonglong(), *which)

    def _read(self, name: str, value: Any, *which: int) -> int:
        """A number of the device; zero where it has no such thing, as ECC on small ones."""
        status = self._status(name, self._handle, *which, ctypes.byref(value))
        if status == _NOT_SUPPORTED:
            return 0
        if status:
            self._fail(name, status)
        return int(value.value)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := self._status(name, *arguments):
            self._fail(name, status)

    def _status(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))

    def _fail(self, name: str, status: int) -> None:
        said = self._library.nvmlErrorString(status).decode()
        raise DeviceFault(f"NVML answered {name} with {said}")


def _is_foreign(pid: int) -> bool:
    """Whether a process is none of ours; one that a namespace hides from us cannot be judged."""
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return owner not in (os.getuid(), *HARNESS_UIDS) and not name.startswith(MPS_SERVER)
