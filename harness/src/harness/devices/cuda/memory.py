"""Memory of the device that crosses processes as a file descriptor."""

import ctypes
import importlib
import os
from collections import deque
from typing import Any

from harness.devices.cuda.driver import Driver
from harness.devices.cuda.rules import Shot

# The mailbox lies in the last page of the inputs' memory: one word opens the gate, one says done.
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


class AllocationWish(ctypes.Structure):
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


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Mapping:
    """Memory that was made to be shared: where it lies here, and a descriptor of it."""

    def __init__(self, driver: Driver, device: int, size: int) -> None:
        self._driver = driver
        wish = AllocationWish(
            type=_PINNED, handles=_DESCRIPTOR, location=_Location(_DEVICE, device)
        )
        unit = ctypes.c_size_t()
        driver("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(wish), 0)
        self.size = -(-size // unit.value) * unit.value
        handle = ctypes.c_uint64()
        driver("cuMemCreate", ctypes.byref(handle), self.size, ctypes.byref(wish), 0)
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
        access = Access(_Location(_DEVICE, device), _READ_WRITE)
        self._driver("cuMemSetAccess", address.value, self.size, ctypes.byref(access), 1)
        return address.value

    def close(self) -> None:
        """Lets go of it; it lives on in whoever else maps it."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        self._driver("cuMemUnmap", self.address, self.size)
        self._driver("cuMemAddressFree", self.address, self.size)


class _Seen:
    """Bytes of the device, as libraries exchange them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def tensor_at(address: int, size: int, place: str) -> Any:
    """A flat tensor of bytes on memory of the device; it owns nothing."""
    torch: Any = importlib.import_module("torch")
    seen = _Seen(address, size)
    found = torch.as_tensor(seen, device=place)
    assert found.data_ptr() == address, "torch made a copy of shared memory"
    return found


class Outputs:
    """What a worker answers into: `bytes` is the very memory that it maps."""

    role = "outputs"

    def __init__(self, mapping: Mapping, size: int, place: str) -> None:
        self._mapping = mapping
        self.descriptor = mapping.descriptor
        self.address = mapping.address
        self.size = size
        self.bytes: Any = tensor_at(mapping.address, size, place)
        self.told: dict[str, Any] = {"kind": "cuda", "bytes": mapping.size}

    def close(self) -> None:
        """Lets go of the memory; no tensor on it may be used afterwards."""
        self.bytes = None
        self._mapping.close()


class Inputs:
    """What a worker is shown: `bytes` is private, and copied to the worker by the reveal alone.

    `shots` are the calls that it was shown for, the last ones.
    """

    role = "inputs"

    def __init__(self, mapping: Mapping, size: int, place: str, *, has_gate: bool) -> None:
        torch: Any = importlib.import_module("torch")
        self._mapping = mapping
        self.descriptor = mapping.descriptor
        self.address = mapping.address
        self.size = size
        self.shots: deque[Shot] = deque(maxlen=SHOTS_MAX)
        self.mailbox = mapping.address + mapping.size - MAILBOX_BYTES
        self.bytes: Any = torch.zeros(size, dtype=torch.uint8, device=place)
        # Before the first reveal nothing of an earlier owner may lie there.
        tensor_at(mapping.address, mapping.size, place).zero_()
        self.told: dict[str, Any] = {"kind": "cuda", "bytes": mapping.size}
        if has_gate:
            self.told["gate"] = mapping.size - MAILBOX_BYTES

    def close(self) -> None:
        """Lets go of the memories."""
        self.bytes = None
        self._mapping.close()
