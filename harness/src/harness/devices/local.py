"""A GPU that is timed inside the worker's process: tier G0, for developers, never ranked."""

import importlib
import time
from typing import Any, cast

from harness.devices.cuda.rules import architecture_name, flush_bytes
from harness.devices.device import Device, DeviceFault, SharedMemory, Window

CLAIM_BYTES = 4096
COPY_BYTES = 64 * 1024**2
FMA_SIDE = 1024


class LocalMemory:
    """Memory of the device here, and host memory where the worker sees it."""

    def __init__(self, size: int, place: str, claim: dict[str, Any]) -> None:
        torch: Any = importlib.import_module("torch")
        self.size = size
        self._shared = SharedMemory(size + CLAIM_BYTES)
        self.descriptor = self._shared.descriptor
        self.bytes: Any = torch.zeros(size, dtype=torch.uint8, device=place)
        self.layout = {"kind": "local", "bytes": size + CLAIM_BYTES, "claim": size, **claim}
        self._claim = self._shared.bytes[size : size + 16].view(torch.float64)

    def push(self) -> None:
        """Copy the device's content to where the worker sees it."""
        self._shared.bytes[: self.size].copy_(self.bytes)

    def pull(self) -> None:
        """Copy what the worker wrote back to the device."""
        self.bytes.copy_(self._shared.bytes[: self.size])

    def claim(self) -> tuple[float, bool]:
        """Return the worker's claimed microseconds, and whether its launch was visible."""
        time_us, is_dry = self._claim.tolist()
        return time_us, bool(is_dry)

    def close(self) -> None:
        """Release both memories."""
        self.bytes = None
        self._claim = None
        self._shared.close()


class LocalDevice(Device):
    """A GPU through torch alone: `name` is cuda or hip, both called cuda by torch.

    The worker empties the caches before its own clock starts. These times are claims, marked as
    such and never ranked, so they need neither calibration nor checks.
    """

    tier = "G0"
    place = "cuda:0"

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self) -> None:
        """Open the device. Raises DeviceFault."""
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        is_hip = getattr(torch.version, "hip", None) is not None
        if is_hip != (self.name == "hip"):
            raise DeviceFault(f"{self.name} was requested, but this torch is built without it")
        try:
            torch.cuda.init()
            self._properties = torch.cuda.get_device_properties(self.place)
            self._square = torch.rand(FMA_SIDE, FMA_SIDE, device=self.place)
            self._copy_buffer = torch.zeros(COPY_BYTES, dtype=torch.uint8, device=self.place)
            self.architecture = torch_architecture(self._properties)
        except (AssertionError, RuntimeError) as error:
            raise DeviceFault(f"torch cannot use {self.place}: {error}") from error

    def describe(self) -> dict[str, str]:
        """Return what a result should record about the device."""
        properties = self._properties
        return {
            "gpu": str(properties.name),
            "gpu_memory_mib": str(properties.total_memory // 1024**2),
            "multiprocessors": str(properties.multi_processor_count),
            "flush_mib": str(self._flush_bytes() // 1024**2),
        }

    def allocate(self, size: int, role: str) -> LocalMemory:
        """Return memory for a role; the claim lies beside the inputs."""
        claim = {"flush": self._flush_bytes()} if role == "inputs" else {}
        return LocalMemory(size, self.place, claim)

    def timed(self, window: Window) -> float:
        """Return the worker's claim for one call, in microseconds, limited by the wall clock."""
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

    def reference(self, name: str) -> float:
        """Time a product of matrices (`fma`) or a copy (`copy`), in microseconds."""
        before, after = (self._torch.cuda.Event(enable_timing=True) for _ in "12")
        before.record()
        if name == "fma":
            self._torch.mm(self._square, self._square)
        else:
            self._copy_buffer.clone()
        after.record()
        after.synchronize()
        return 1000 * float(before.elapsed_time(after))

    def close(self) -> None:
        """Release the device."""
        self._square = self._copy_buffer = None

    def _flush_bytes(self) -> int:
        cache = int(getattr(self._properties, "L2_cache_size", 0))
        return flush_bytes(str(self._properties.name), cache)


def torch_architecture(properties: Any) -> str:
    """Return the compiler's name of the device that torch describes.

    >>> from types import SimpleNamespace as Properties
    >>> torch_architecture(Properties(gcnArchName="gfx942:sramecc+:xnack-"))
    'gfx942'
    >>> torch_architecture(Properties(major=9, minor=0))
    'sm_90a'
    """
    if name := getattr(properties, "gcnArchName", ""):
        return str(name).partition(":")[0]
    return architecture_name((properties.major, properties.minor))
