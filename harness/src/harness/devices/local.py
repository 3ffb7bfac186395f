"""A GPU that is timed inside the worker's process: tier G0, for developers, never ranked."""

import importlib
import time
from typing import Any, cast

from harness.devices.cuda.rules import architecture, flush_bytes
from harness.devices.device import DeviceFault, Memory, Window
from harness.devices.shared_memory import SharedMemory

CLAIM_BYTES = 4096
COPY_BYTES = 64 * 1024**2
FMA_SIDE = 1024


class LocalMemory:
    """Memory of the device here, and of the processor where the worker sees it."""

    def __init__(self, size: int, place: str, claim: dict[str, Any]) -> None:
        torch: Any = importlib.import_module("torch")
        self.size = size
        self._shared = SharedMemory(size + CLAIM_BYTES)
        self.descriptor = self._shared.descriptor
        self.bytes: Any = torch.zeros(size, dtype=torch.uint8, device=place)
        self.told = {"kind": "local", "bytes": size + CLAIM_BYTES, "claim": size, **claim}
        self._claim = self._shared.bytes[size : size + 16].view(torch.float64)

    def push(self) -> None:
        """Copies the device's content to where the worker sees it."""
        self._shared.bytes[: self.size].copy_(self.bytes)

    def pull(self) -> None:
        """Copies what the worker left back to the device."""
        self.bytes.copy_(self._shared.bytes[: self.size])

    def claim(self) -> tuple[float, bool]:
        """What the worker says that its call took, in microseconds, and if its launch was seen."""
        time_us, is_dry = self._claim.tolist()
        return time_us, bool(is_dry)

    def close(self) -> None:
        """Lets go of both."""
        self.bytes = None
        self._claim = None
        self._shared.close()


class Local:
    """A GPU by torch alone: `name` is cuda or hip, which torch calls cuda too."""

    tier = "G0"
    place = "cuda:0"

    def __init__(self, name: str) -> None:
        self.name = name
        self.flags: tuple[str, ...] = ()
        self.architecture = ""

    def prepare(self) -> None:
        """Opens the device. Errors: DeviceFault."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        is_hip = getattr(torch.version, "hip", None) is not None
        if is_hip != (self.name == "hip"):
            raise DeviceFault(f"{self.name} was asked for, this torch is built without it")
        try:
            torch.cuda.init()
            self._properties = torch.cuda.get_device_properties(self.place)
            self._square = torch.rand(FMA_SIDE, FMA_SIDE, device=self.place)
            self._line = torch.zeros(COPY_BYTES, dtype=torch.uint8, device=self.place)
            self.architecture = architecture_of(self._properties)
        except (AssertionError, RuntimeError) as error:
            raise DeviceFault(f"torch cannot use {self.place}: {error}") from error

    def describe(self) -> dict[str, str]:
        """What a result should say about the device."""
        properties = self._properties
        return {
            "gpu": str(properties.name),
            "gpu_memory_mib": str(properties.total_memory // 1024**2),
            "multiprocessors": str(properties.multi_processor_count),
            "flush_mib": str(self._flush() // 1024**2),
        }

    def of_rank(self, rank: int) -> "Local":
        """This one, for every rank."""
        del rank
        return self

    def allocate(self, size: int, role: str) -> LocalMemory:
        """Memory for a role, inputs or outputs; the claim lies beside the inputs."""
        claim = {"flush": self._flush()} if role == "inputs" else {}
        return LocalMemory(size, self.place, claim)

    def flush(self) -> None:
        """Nothing: the worker empties the caches before its own clock starts."""

    def timed(self, window: Window) -> float:
        """One call: the worker's claim, in microseconds, where the wall clock allows it."""
        pairs = cast("list[tuple[LocalMemory, LocalMemory]]", window.memories)
        window.show()
        for inputs, outputs in pairs:
            inputs.push()
            outputs.push()
        self._torch.cuda.synchronize()
        began = time.perf_counter_ns()
        window.go()
        window.wait()
        wall_us = (time.perf_counter_ns() - began) / 1000
        for _, outputs in pairs:
            outputs.pull()
        window.hold()
        claims = [inputs.claim() for inputs, _ in pairs]
        claim_us = max(claim for claim, _ in claims)
        self.flags = ("in_process", "dry") if any(dry for _, dry in claims) else ("in_process",)
        return claim_us if 0 < claim_us <= wall_us else wall_us

    def run_untimed(self, window: Window) -> None:
        """One call of which no time is kept."""
        self.timed(window)

    def reference(self, name: str) -> float:
        """A product of matrices (`fma`) or a copy (`copy`), in microseconds."""
        before, after = (self._torch.cuda.Event(enable_timing=True) for _ in "12")
        before.record()
        if name == "fma":
            self._torch.mm(self._square, self._square)
        else:
            self._line.clone()
        after.record()
        after.synchronize()
        return 1000 * float(before.elapsed_time(after))

    def calibration(self) -> dict[str, float]:
        """Nothing: a clock that never ranks needs none."""
        return {}

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """Nothing."""
        del inputs
        return {}

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Nothing: these times are claims, and said to be."""
        del inputs, null_spread_us
        return ""

    def unfit(self) -> list[str]:
        """Nothing: what is never ranked needs no gates."""
        return []

    def close(self) -> None:
        """Lets go of the device."""
        self._square = self._line = None

    def _flush(self) -> int:
        cache = int(getattr(self._properties, "L2_cache_size", 0))
        return flush_bytes(str(self._properties.name), cache)


def architecture_of(properties: Any) -> str:
    """What compilers call the device that torch describes so.

    >>> from types import SimpleNamespace as Properties
    >>> architecture_of(Properties(gcnArchName="gfx942:sramecc+:xnack-"))
    'gfx942'
    >>> architecture_of(Properties(major=9, minor=0))
    'sm_90a'
    """
    if name := getattr(properties, "gcnArchName", ""):
        return str(name).partition(":")[0]
    return architecture((properties.major, properties.minor))
