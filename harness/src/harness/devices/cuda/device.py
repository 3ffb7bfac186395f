"""An NVIDIA GPU as a device: its abilities are tried, and its tier follows from them.

NVML reports its state: heat, slowdowns, errors, and who else computes on it.
"""

import ctypes
import importlib
import os
import secrets
import time
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self, cast

from harness.devices.cuda import rules
from harness.devices.cuda.driver import (
    L2_BYTES,
    MAPS_MEMORY,
    MULTIPROCESSORS,
    NON_BLOCKING,
    SHARES_DESCRIPTORS,
    WAIT_EQUAL,
    Driver,
    DriverError,
    Kernels,
)
from harness.devices.cuda.gate import DRAIN_S_MAX, DeviceFacts, Referee, RefereeStream
from harness.devices.cuda.memory import MAILBOX_BYTES, CudaInputs, CudaMemory, SharedMapping
from harness.devices.device import Device, DeviceFault, Memory, Window

# The accounts of runs and workers, where the harness is root.
HARNESS_UIDS = range(64000, 65000)
MPS_SERVER = "nvidia-cuda-mps"

_UNCORRECTED, _SINCE_START = 1, 0
_PROCESSES_MAX = 256
_TOO_SMALL = 7
_NOT_SUPPORTED = 3

# Of the number that the chain of multiplications would write.
FMA_BYTES = 4
FMA_LINKS = 25_000
STEP_READS = 200_000

_TRIAL_WORD = 7
_TRIAL_S_MAX = 2.0


# What NVML says of memory that it cannot attribute.
_UNKNOWN_BYTES = 2**64 - 1


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlMonitor:
    """NVML's view of one device, without a context. Raises DeviceFault if there is no NVML."""

    def __init__(self, uuid: str, library: str = "libnvidia-ml.so.1") -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DeviceFault(f"NVML cannot be loaded: {error}") from error
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p()
        self._require("nvmlInit_v2")
        handle_pointer = ctypes.byref(self._handle)
        self._require("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), handle_pointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.nvmlShutdown()

    def vitals(self) -> rules.DeviceHealth:
        """Return the current state. Processes that are not the harness's are foreign."""
        number, long = ctypes.c_uint, ctypes.c_ulonglong
        return rules.DeviceHealth(
            temperature_c=self._read("nvmlDeviceGetTemperature", number(), 0),
            reasons=self._read("nvmlDeviceGetCurrentClocksThrottleReasons", long()),
            ecc_errors=self._read(
                "nvmlDeviceGetTotalEccErrors", long(), _UNCORRECTED, _SINCE_START
            ),
            foreign=tuple(pid for pid in self._used_bytes() if _is_foreign(pid)),
        )

    def used_bytes(self, pids: Collection[int]) -> int:
        """Return how much memory processes hold, 0 where it is not known."""
        return sum(used for pid, used in self._used_bytes().items() if pid in pids)

    def _used_bytes(self) -> dict[int, int]:
        """Return the memory of each process by its pid as NVML sees it.

        In a pid namespace pids may differ, or be missing. Unknown memory is 0.
        """
        count = ctypes.c_uint(_PROCESSES_MAX)
        processes = (_Process * _PROCESSES_MAX)()
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        status = self._status(name, self._handle, ctypes.byref(count), processes)
        if status not in (0, _TOO_SMALL, _NOT_SUPPORTED):
            self._raise_error(name, status)
        known = processes[: min(count.value, _PROCESSES_MAX)] if not status else ()
        return {it.pid: it.used if it.used != _UNKNOWN_BYTES else 0 for it in known}

    def _read(self, name: str, value: Any, *arguments: int) -> int:
        """Return a number of the device; 0 where it has none, such as ECC on small GPUs."""
        status = self._status(name, self._handle, *arguments, ctypes.byref(value))
        if status == _NOT_SUPPORTED:
            return 0
        if status:
            self._raise_error(name, status)
        return int(value.value)

    def _require(self, name: str, *arguments: Any) -> None:
        if status := self._status(name, *arguments):
            self._raise_error(name, status)

    def _status(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))

    def _raise_error(self, name: str, status: int) -> None:
        text = self._library.nvmlErrorString(status).decode()
        raise DeviceFault(f"NVML answered {name} with {text}")


def _is_foreign(pid: int) -> bool:
    """Return whether a process is not ours; one hidden by a pid namespace cannot be judged."""
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return owner not in (os.getuid(), *HARNESS_UIDS) and not name.startswith(MPS_SERVER)


class CudaDevice(Device):
    """One GPU with a referee in its own context. Every method can raise DeviceFault.

    The caches are emptied inside `timed`, after the inputs are copied.
    """

    name = "cuda"

    def __init__(self, index: int = 0, *, is_frozen: bool, runs_beside: bool) -> None:
        self.place = f"cuda:{index}"
        self.tier = "G0"
        self._index = index
        self._is_frozen = is_frozen
        self._runs_beside = runs_beside
        self._ecc_errors: int | None = None

    def prepare(self) -> None:
        """Open the device: context, kernels, clocks, and a trial of what the tier needs."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self.driver = Driver()
        self.driver.enter(self._open_driver())
        self._open_torch()
        self.kernels = Kernels(self.driver, self._index)
        self.architecture = rules.architecture_name(self.kernels.compute)
        self.timer_step_ns = self._measure_step_ns()
        self.able = self._try_abilities()
        self.tier = rules.choose_tier(self.able)
        cache_bytes = self.driver.attribute(L2_BYTES, self._index)
        self.facts = DeviceFacts(
            place=self.place,
            multiprocessors=self.driver.attribute(MULTIPROCESSORS, self._index),
            flush_bytes=rules.flush_bytes(self._name(), cache_bytes),
            clock=rules.choose_clock(self.timer_step_ns),
        )
        self.referee = Referee(self.driver, self.kernels, self.facts, RefereeStream(self.place))
        self._line = torch.zeros(FMA_BYTES, dtype=torch.uint8, device=self.place)

    def describe(self) -> dict[str, str]:
        """Return what a result should record about the device."""
        version = self.driver.number("cuDriverGetVersion")
        identity = ctypes.create_string_buffer(16)
        self.driver("cuDeviceGetUuid_v2", identity, self._index)
        total = ctypes.c_size_t()
        self.driver("cuDeviceTotalMem_v2", ctypes.byref(total), self._index)
        return {
            "gpu": self._name(),
            "gpu_uuid": f"GPU-{uuid.UUID(identity.raw.hex())}",
            "gpu_memory_mib": str(total.value // rules.MIB),
            "compute_capability": ".".join(map(str, self.kernels.compute)),
            "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
            "timer_step_ns": str(self.timer_step_ns),
            "clock": self.facts.clock,
            "flush_mib": str(self.facts.flush_bytes // rules.MIB),
        }

    def allocate(self, size: int, role: str) -> Memory:
        """Return memory that a worker may map: inputs, private until revealed, or outputs."""
        if role == "inputs":
            mapping = SharedMapping(self.driver, self._index, size + MAILBOX_BYTES)
            return CudaInputs(mapping, size, self.place, has_gate=self.tier in ("G1", "G2"))
        return CudaMemory(SharedMapping(self.driver, self._index, size), size, self.place)

    def timed(self, window: Window) -> float:
        """Time one call, in microseconds. Raises RuleViolation and errors of the window."""
        reveal = rules.choose_reveal(
            self.tier, window.memories[0][0].bytes.numel(), secrets.randbits(32)
        )
        timing = self._time_call(window, reveal)
        self.flags = timing.flags
        cast("CudaInputs", window.memories[0][0]).shots.append(timing)
        return timing.time_us

    def run_untimed(self, window: Window) -> None:
        """Make one call without a clock and behind an open gate.

        Autotuning uses the GPU for more than its own work, and the first launch of a kernel may
        load its module.
        """
        if self.tier in ("G1", "G2"):
            self.referee.call_ungated(window)
        else:
            time_by_host([self], window)

    def _time_call(self, window: Window, reveal: str) -> rules.CallTiming:
        if self.tier in ("G1", "G2"):
            return self.referee.shoot(window, reveal)
        return time_by_host([self], window)

    def free_share(self, besides: int = 0) -> float:
        """Return which share of the GPU's memory is free besides so many bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return (free.value - besides) / total.value

    def memory_mib(self, pids: Collection[int]) -> float:
        """Return what NVML says that processes hold, in MiB; 0 without NVML."""
        try:
            with NvmlMonitor(self.describe()["gpu_uuid"]) as monitor:
                return monitor.used_bytes(pids) / rules.MIB
        except DeviceFault:
            return 0.0

    def is_usable(self) -> bool:
        """Return whether its context works; with MPS, a worker's fault breaks it."""
        return not self.referee.error()

    def worker_fault(self) -> str:
        """Return the error of a worker's kernel; our own kernels make none."""
        error = self.referee.error() if self._runs_beside else ""
        return error if error in rules.KERNEL_FAULTS else ""

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Return why the calls with these inputs are suspicious, "" if they are not."""
        cuda_inputs = cast("CudaInputs", inputs)
        copy_us = self.referee.span_us(lambda _: self.referee.copy(cuda_inputs))
        return rules.find_suspicion(list(cuda_inputs.shots), copy_us, null_spread_us)

    def time_fma(self) -> float:
        """Time a chain of multiplications: about 50 us."""
        return self.referee.span_us(self._fma)

    def calibration(self) -> dict[str, float]:
        """Return the timer's step, an empty pair of events, and cupy's second opinion, if any."""
        figures = {
            "timer_step_ns": float(self.timer_step_ns),
            "pair_us": self.referee.span_us(lambda _: None),
            "fma_us": self.referee.span_us(self._fma),
        }
        try:
            cupy: Any = importlib.import_module("cupy")
        except ImportError:
            return figures
        return figures | {"fma_cupy_us": self.referee.span_by_cupy_us(cupy, self._fma)}

    def unfit(self) -> list[str]:
        """Return NVML's reports of heat, new memory errors and other processes on the device."""
        try:
            with NvmlMonitor(self.describe()["gpu_uuid"]) as monitor:
                health = monitor.vitals()
        except DeviceFault:
            return []  # without NVML nothing reports
        if self._ecc_errors is None:
            self._ecc_errors = health.ecc_errors
        reason = rules.find_unfitness(health, self._ecc_errors)
        return [reason] if reason else []

    def synchronize(self) -> None:
        """Wait for everything that torch has enqueued on it."""
        self._torch.cuda.synchronize(self.place)

    def close(self) -> None:
        """Release the device; the context ends with the process."""
        self._line = None

    def _open_driver(self) -> int:
        count = self.driver.number("cuDeviceGetCount")
        if self._index >= count:
            raise DeviceFault(f"device {self._index} was requested, but the driver finds {count}")
        return self.driver.number("cuDeviceGet", self._index)

    def _open_torch(self) -> None:
        """Open torch in the same primary context; its own error explains a failure best."""
        try:
            self._torch.cuda.init()
            self._torch.cuda.set_device(self._index)
            self._torch.zeros(1, device=self.place)
        except (AssertionError, RuntimeError) as error:
            raise DeviceFault(f"torch cannot use {self.place}: {error}") from error

    def _name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.driver("cuDeviceGetName", text, len(text), self._index)
        return text.value.decode(errors="replace")

    def _measure_step_ns(self) -> int:
        result = self._torch.zeros(1, dtype=self._torch.int64, device=self.place)
        result_pointer, reads = ctypes.c_uint64(result.data_ptr()), ctypes.c_int(STEP_READS)
        self.kernels["k_step"](0, (1, 1), result_pointer, reads)
        return int(result.item())

    def _try_abilities(self) -> rules.Abilities:
        attributes = (MAPS_MEMORY, SHARES_DESCRIPTORS)
        shares = all(self.driver.attribute(attribute, self._index) for attribute in attributes)
        return rules.Abilities(
            has_memops=self._has_memops(),
            shares_memory=shares and self._shares_memory(),
            runs_beside=self._runs_beside,
            is_frozen=self._is_frozen,
            compute=self.kernels.compute,
        )

    def _shares_memory(self) -> bool:
        try:
            SharedMapping(self.driver, self._index, MAILBOX_BYTES).close()
        except DriverError:
            return False
        return True

    def _has_memops(self) -> bool:
        """Return whether one stream can wait for a word that another one writes."""
        word = self._torch.zeros(16, dtype=self._torch.int32, device=self.place)
        waiting = self.driver.pointer("cuStreamCreate", NON_BLOCKING)
        writing = self.driver.pointer("cuStreamCreate", NON_BLOCKING)
        event = self.driver.pointer("cuEventCreate", 0)
        self._torch.cuda.synchronize(self.place)
        address = word.data_ptr()
        try:
            self.driver("cuStreamWaitValue32_v2", waiting, address, _TRIAL_WORD, WAIT_EQUAL)
            self.driver("cuEventRecord", event, waiting)
            self.driver("cuStreamWriteValue32_v2", writing, address, _TRIAL_WORD, 0)
            ends_at = time.monotonic() + _TRIAL_S_MAX
            while not self.driver.is_over(event):
                if time.monotonic() > ends_at:
                    return False
        except DriverError:
            return False
        return True

    def _fma(self, stream: int) -> None:
        grid = (self.facts.multiprocessors, 256)
        out = ctypes.c_uint64(self._line.data_ptr())
        self.kernels["k_fma"](stream, grid, out, ctypes.c_int(FMA_LINKS))


def time_by_host(devices: Sequence[CudaDevice], window: Window) -> rules.CallTiming:
    """Time one call without a gate, by the host's clock; workers are frozen until it runs.

    `devices` has at least one device per rank of the window. Raises DeviceFault and errors of the
    window.
    """
    used = list(zip(devices, window.memories, strict=False))
    window.show()
    for device, _ in used:
        with device.referee.lane.current():
            device.referee.flush()
        device.synchronize()
    began = time.perf_counter_ns()
    for device, (inputs, _) in used:
        with device.referee.lane.current():
            device.referee.copy(cast("CudaInputs", inputs))
    for device, _ in used:
        with device.referee.lane.current():
            if not device.referee.settle(DRAIN_S_MAX):
                raise DeviceFault("the copy of the inputs did not end")
    window.go()
    window.wait()
    window.hold()
    for device, _ in used:
        device.synchronize()
    wall_us = (time.perf_counter_ns() - began) / 1000
    return rules.CallTiming("host", wall_us, wall_us, wall_us, is_armed=True)
