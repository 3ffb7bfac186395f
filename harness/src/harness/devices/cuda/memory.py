"""Device memory that crosses processes as a file descriptor, and one rank's call on it."""

import ctypes
import importlib
import os
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self, cast

from harness.devices.cuda.driver import Driver
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import Window

# The mailbox is the last page of the inputs' memory: one word opens the gate, one reports done.
MAILBOX_BYTES = 4096
SHOTS_MAX = 10_000
REVEAL_AT = 0
DONE_AT = 64

_PINNED = 1
_DEVICE = 1
_DESCRIPTOR = 1
_READ_WRITE = 3


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class MemoryAccess(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class SharedMapping:
    """Shareable memory: its address here, and its descriptor."""

    def __init__(self, driver: Driver, device: int, size: int) -> None:
        self._driver = driver
        properties = AllocationProperties(
            type=_PINNED, handles=_DESCRIPTOR, location=_Location(_DEVICE, device)
        )
        unit = ctypes.c_size_t()
        driver("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(properties), 0)
        self.size = -(-size // unit.value) * unit.value
        handle = ctypes.c_uint64()
        driver("cuMemCreate", ctypes.byref(handle), self.size, ctypes.byref(properties), 0)
        descriptor = ctypes.c_int(-1)
        try:
            out = ctypes.byref(descriptor)
            driver("cuMemExportToShareableHandle", out, handle.value, _DESCRIPTOR, 0)
            self.address = self._map(handle.value, device)
        finally:
            # The mapping and the descriptor keep the memory alive.
            driver("cuMemRelease", handle.value)
        self.descriptor = descriptor.value
        os.set_inheritable(self.descriptor, False)

    def _map(self, handle: int, device: int) -> int:
        address = ctypes.c_uint64()
        self._driver("cuMemAddressReserve", ctypes.byref(address), self.size, 0, 0, 0)
        self._driver("cuMemMap", address.value, self.size, 0, handle, 0)
        access = MemoryAccess(_Location(_DEVICE, device), _READ_WRITE)
        self._driver("cuMemSetAccess", address.value, self.size, ctypes.byref(access), 1)
        return address.value

    def close(self) -> None:
        """Release it; it lives on in other processes that map it.

        A broken context refuses that, and its end releases everything.
        """
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        self._driver.status("cuMemUnmap", self.address, self.size)
        self._driver.status("cuMemAddressFree", self.address, self.size)


class _DeviceBytes:
    """Bytes of the device, in the interface by which libraries exchange them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def tensor_at(address: int, size: int, place: str) -> Any:
    """Return a flat byte tensor on device memory; it owns nothing."""
    torch: Any = importlib.import_module("torch")
    device_bytes = _DeviceBytes(address, size)
    tensor = torch.as_tensor(device_bytes, device=place)
    assert tensor.data_ptr() == address, "torch made a copy of shared memory"
    return tensor


class CudaMemory:
    """Memory that a worker maps and answers into: `bytes` is the same memory."""

    def __init__(self, mapping: SharedMapping, size: int, place: str) -> None:
        self._mapping = mapping
        self.descriptor = mapping.descriptor
        self.address = mapping.address
        self.size = size
        self.bytes: Any = tensor_at(mapping.address, size, place)
        self.layout: dict[str, Any] = {"kind": "cuda", "bytes": mapping.size}

    def close(self) -> None:
        """Release the memory; no tensor on it may be used afterwards."""
        self.bytes = None
        self._mapping.close()


class CudaInputs(CudaMemory):
    """What a worker sees: `bytes` is private, and only the reveal copies it to the worker.

    `shots` are the timings of the last calls with these inputs.
    """

    def __init__(self, mapping: SharedMapping, size: int, place: str, *, has_gate: bool) -> None:
        super().__init__(mapping, size, place)
        torch: Any = importlib.import_module("torch")
        self.shots: deque[CallTiming] = deque(maxlen=SHOTS_MAX)
        self.mailbox = mapping.address + mapping.size - MAILBOX_BYTES
        self.bytes = torch.zeros(size, dtype=torch.uint8, device=place)
        # Before the first reveal, no data of an earlier owner may be there.
        tensor_at(mapping.address, mapping.size, place).zero_()
        if has_gate:
            self.layout["gate"] = mapping.size - MAILBOX_BYTES


@dataclass
class RankCall:
    """One rank's part of a call: its memories, and the words that open the gate and report done."""

    window: Window
    inputs: CudaInputs
    outputs: CudaMemory
    reveal: int
    done_word: int
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    has_answered: bool = False

    @classmethod
    def of(cls, window: Window, rank: int) -> Self:
        """Return a rank's part of the call that a window is about to make."""
        inputs, outputs = cast("tuple[CudaInputs, CudaMemory]", window.memories[rank])
        # Zero is what the mailbox holds before its first use.
        reveal, done_nonce = (
            int.from_bytes(window.nonce[at : at + 4], "little") | 1 for at in (0, 4)
        )
        return cls(window, inputs, outputs, reveal, done_nonce)

    @property
    def reveal_at(self) -> int:
        """The address of the word that opens the gate."""
        return self.inputs.mailbox + REVEAL_AT

    @property
    def done_at(self) -> int:
        """The address of the word that reports the end."""
        return self.inputs.mailbox + DONE_AT

    def wait_for_done(self) -> None:
        """Wait for the worker's DONE, once. Raises CaseFailed."""
        if not self.has_answered:
            self.window.wait()
            self.has_answered = True
