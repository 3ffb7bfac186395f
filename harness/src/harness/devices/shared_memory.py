"""Memory of the processor that supervisor and worker both map, as a flat tensor of bytes."""

import fcntl
import importlib
import mmap
import os
from typing import Any

# Absent from fcntl: without the seals a worker could shrink the memory, and the supervisor's next
# access would be a SIGBUS.
_F_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4  # no further seals, no shrinking, no growing


class SharedMemory:
    """A sealed memory of a fixed size; `bytes` is its content, `descriptor` goes to the worker."""

    def __init__(self, size: int, *, is_sealed: bool = True) -> None:
        torch: Any = importlib.import_module("torch")
        self.descriptor = os.memfd_create("warpboard", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        if is_sealed:
            fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _SEALS)
        self.told: dict[str, Any] = {}
        self.bytes: Any = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)

    def close(self) -> None:
        """Lets go of the memory; it lives on in whoever else maps it."""
        os.close(self.descriptor)
        self.bytes = None
