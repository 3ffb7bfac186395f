"""An NVIDIA GPU as a device: what it can do is tried, and its tier follows from that."""

import ctypes
import importlib
import secrets
import time
import uuid
from collections.abc import Sequence
from typing import Any, cast

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
)
from harness.devices.cuda.gate import DRAIN_S_MAX, Facts, Referee
from harness.devices.cuda.health import Monitor
from harness.devices.cuda.kernels import Kernels
from harness.devices.cuda.lane import Lane
from harness.devices.cuda.memory import MAILBOX_BYTES, Inputs, Mapping, Outputs
from harness.devices.device import DeviceFault, Memory, Window

COPY_BYTES = 64 * rules.MIB
FMA_LINKS = 25_000
STEP_READS = 200_000

_TRIAL_WORD = 7
_TRIAL_S_MAX = 2.0


class Cuda:
    """One GPU with a referee of its own context. Errors: DeviceFault, from any method."""

    name = "cuda"

    def __init__(self, index: int = 0, *, is_frozen: bool, runs_beside: bool) -> None:
        self.place = f"cuda:{index}"
        self.tier = "G0"
        self.flags: tuple[str, ...] = ()
        self.architecture = ""
        self._index = index
        self._is_frozen = is_frozen
        self._runs_beside = runs_beside
        self._ecc_errors: int | None = None

    def prepare(self) -> None:
        """Opens the device: context, kernels, clocks, and a trial of all that the tier needs."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self.driver = Driver()
        self.driver.enter(self._device())
        self._open_torch()
        self.kernels = Kernels(self.driver, self._index)
        self.architecture = rules.architecture(self.kernels.compute)
        self.timer_step_ns = self._step_ns()
        self.able = self._tried()
        self.tier = rules.tier_of(self.able)
        cache_bytes = self.driver.attribute(L2_BYTES, self._index)
        self.facts = Facts(
            place=self.place,
            multiprocessors=self.driver.attribute(MULTIPROCESSORS, self._index),
            flush_bytes=rules.flush_bytes(self._name(), cache_bytes),
            clock=rules.clock_of(self.timer_step_ns),
        )
        self.referee = Referee(self.driver, self.kernels, self.facts, Lane(self.place))
        self._line = torch.zeros(2, COPY_BYTES // 2, dtype=torch.uint8, device=self.place)

    def describe(self) -> dict[str, str]:
        """What a result should say about the device."""
        version = self.driver.number("cuDriverGetVersion")
        identity = ctypes.create_string_buffer(16)
        self.driver("cuDeviceGetUuid_v2", identity, self._index)
        total = ctypes.c_size_t()
        self.driver("cuDeviceTotalMem_v2", ctypes.byref(total), self._index)
        return {
            "gpu": self._name(),
            "gpu_uuid": f"GPU-{_dashed(identity.raw.hex())}",
            "gpu_memory_mib": str(total.value // rules.MIB),
            "compute_capability": ".".join(map(str, self.kernels.compute)),
            "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
            "timer_step_ns": str(self.timer_step_ns),
            "clock": self.facts.clock,
            "flush_mib": str(self.facts.flush_bytes // rules.MIB),
        }

    def allocate(self, size: int, role: str) -> Memory:
        """Memory that a worker may map; `role` is inputs, private until revealed, or outputs."""
        if role == "inputs":
            mapping = Mapping(self.driver, self._index, size + MAILBOX_BYTES)
            return Inputs(mapping, size, self.place, has_gate=self.tier in ("G1", "G2"))
        return Outputs(Mapping(self.driver, self._index, size), size, self.place)

    def flush(self) -> None:
        """Nothing yet: the caches are emptied inside `timed`, after the inputs are copied."""

    def timed(self, window: Window) -> float:
        """One call, in microseconds. Errors: Foul, and those of the window."""
        way = rules.way_of(self.tier, window.memories[0][0].bytes.numel(), secrets.randbits(32))
        shot = self._shoot(window, way)
        self.flags = shot.flags
        cast("Inputs", window.memories[0][0]).shots.append(shot)
        return shot.time_us

    def run_untimed(self, window: Window) -> None:
        """One call of which no time is kept. What tunes itself uses the GPU beside its own work,
        so the inputs are revealed strictly: a blanket would have the GPU to itself.
        """
        self._shoot(window, "strict")

    def _shoot(self, window: Window, way: str) -> rules.Shot:
        if self.tier in ("G1", "G2"):
            return self.referee.shoot(window, way)
        return timed_by_host([self], window)

    def of_rank(self, rank: int) -> "Cuda":
        """This one: several ranks have a gang."""
        del rank
        return self

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """Nothing."""
        del inputs
        return {}

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Why the calls with these inputs are to be looked at, or nothing."""
        shown = cast("Inputs", inputs)
        copy_us = self.referee.span_us(lambda _: self.referee.copy(shown))
        return rules.suspicion(list(shown.shots), copy_us, null_spread_us)

    def reference(self, name: str) -> float:
        """A chain of multiplications (`fma`) or a copy (`copy`), about 50 us, in microseconds."""
        if name == "fma":
            return self.referee.span_us(self._fma)
        return self.referee.span_us(self._copy)

    def calibration(self) -> dict[str, float]:
        """For the records: the timer's step, an empty pair, and cupy's second opinion, if any."""
        found = {
            "timer_step_ns": float(self.timer_step_ns),
            "pair_us": self.referee.span_us(lambda _: None),
            "fma_us": self.referee.span_us(self._fma),
        }
        try:
            cupy: Any = importlib.import_module("cupy")
        except ImportError:
            return found
        return found | {"fma_cupy_us": self.referee.span_by_cupy_us(cupy, self._fma)}

    def unfit(self) -> list[str]:
        """Heat, new memory errors, strangers on the device, as NVML tells them."""
        try:
            with Monitor(self.describe()["gpu_uuid"]) as monitor:
                vitals = monitor.vitals()
        except DeviceFault:
            return []  # without NVML the reference kernels alone watch the machine
        if self._ecc_errors is None:
            self._ecc_errors = vitals.ecc_errors
        reason = rules.unfit(vitals, self._ecc_errors)
        return [reason] if reason else []

    def synchronize(self) -> None:
        """Waits for all that torch has put on it."""
        self._torch.cuda.synchronize(self.place)

    def close(self) -> None:
        """Lets go of the device; the context ends with the process."""
        self._line = None

    def _device(self) -> int:
        count = self.driver.number("cuDeviceGetCount")
        if self._index >= count:
            raise DeviceFault(f"device {self._index} was asked for, the driver shows {count}")
        return self.driver.number("cuDeviceGet", self._index)

    def _open_torch(self) -> None:
        """Torch in the same primary context; its own words say best why it cannot."""
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

    def _step_ns(self) -> int:
        seen = self._torch.zeros(1, dtype=self._torch.int64, device=self.place)
        where, reads = ctypes.c_uint64(seen.data_ptr()), ctypes.c_int(STEP_READS)
        self.kernels["k_step"](0, (1, 1), where, reads)
        return int(seen.item())

    def _tried(self) -> rules.Abilities:
        attributes = (MAPS_MEMORY, SHARES_DESCRIPTORS)
        shares = all(self.driver.attribute(one, self._index) for one in attributes)
        return rules.Abilities(
            has_memops=self._has_memops(),
            shares_memory=shares and self._shares_memory(),
            runs_beside=self._runs_beside,
            is_frozen=self._is_frozen,
            compute=self.kernels.compute,
        )

    def _shares_memory(self) -> bool:
        try:
            Mapping(self.driver, self._index, MAILBOX_BYTES).close()
        except DriverError:
            return False
        return True

    def _has_memops(self) -> bool:
        """Whether one stream can wait for a word that another one writes."""
        word = self._torch.zeros(16, dtype=self._torch.int32, device=self.place)
        waiting = self.driver.pointer("cuStreamCreate", NON_BLOCKING)
        writing = self.driver.pointer("cuStreamCreate", NON_BLOCKING)
        event = self.driver.pointer("cuEventCreate", 0)
        self._torch.cuda.synchronize(self.place)
        at = word.data_ptr()
        try:
            self.driver("cuStreamWaitValue32_v2", waiting, at, _TRIAL_WORD, WAIT_EQUAL)
            self.driver("cuEventRecord", event, waiting)
            self.driver("cuStreamWriteValue32_v2", writing, at, _TRIAL_WORD, 0)
            until = time.monotonic() + _TRIAL_S_MAX
            while not self.driver.is_over(event):
                if time.monotonic() > until:
                    return False
        except DriverError:
            return False
        return True

    def _fma(self, stream: int) -> None:
        grid = (self.facts.multiprocessors, 256)
        out = ctypes.c_uint64(self._line.data_ptr())
        self.kernels["k_fma"](stream, grid, out, ctypes.c_int(FMA_LINKS))

    def _copy(self, stream: int) -> None:
        half = COPY_BYTES // 2
        to = ctypes.c_uint64(self._line.data_ptr())
        source = ctypes.c_uint64(self._line.data_ptr() + half)
        grid = (8 * self.facts.multiprocessors, 256)
        self.kernels["k_copy"](stream, grid, to, source, ctypes.c_uint64(half // 16))


def timed_by_host(devices: Sequence[Cuda], window: Window) -> rules.Shot:
    """One call without a gate: the workers are frozen until the clock runs, which is the host's.

    Shapes: a device for each rank of the window, or more. Errors: DeviceFault, the window's.
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
            device.referee.copy(cast("Inputs", inputs))
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
    return rules.Shot("host", wall_us, wall_us, wall_us, is_armed=True)


def _dashed(digits: str) -> str:
    """A UUID's digits in their groups.

    >>> _dashed("00112233445566778899aabbccddeeff")
    '00112233-4455-6677-8899-aabbccddeeff'
    """
    return str(uuid.UUID(digits))
