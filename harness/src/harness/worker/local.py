"""A case that the worker times by itself, with events: for devices whose memory cannot be shared.

Inputs and outputs cross in memory of the processor, outside of what is timed. The time is the
worker's own claim, so it never ranks; but it is flushed and queued as a trusted one would be.
"""

import importlib
import json
from typing import Any

from harness.worker.memory import SharedCase

SPIN_CYCLES = 200_000
SPIN_CYCLES_MAX = 4_000_000
_DRY = 1.0


class LocalCase(SharedCase):
    """A case with a twin on the device for each of its memories.

    The layout's `memories` say of the inputs where the `claim` goes, two doubles, microseconds
    and whether the launch was seen, and how many bytes a `flush` sweeps.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        torch: Any = importlib.import_module("torch")
        told = json.loads(layout)["memories"][0]
        self._twins: list[tuple[Any, Any]] = []
        super().__init__(layout, descriptors)
        at = told["claim"]
        self._claim = self._twins[0][0][at : at + 16].view(torch.float64)
        self._dirty, self._clean = (
            torch.zeros(told["flush"] // 4, dtype=torch.int32, device="cuda") for _ in "12"
        )
        self._before, self._after = (torch.cuda.Event(enable_timing=True) for _ in "12")
        self._spin = SPIN_CYCLES
        self._is_dry = False

    def gate(self, nonce: bytes) -> None:
        """Fetches the inputs, empties the caches, and keeps the device busy while work queues."""
        del nonce
        for shared, twin in self._twins:
            twin.copy_(shared)
        self._dirty.fill_(self._spin)
        self._clean.sum()
        # HIP has the same name for it; where a build lacks it, launches are seen, and said so.
        if hasattr(self._torch.cuda, "_sleep"):
            self._torch.cuda._sleep(self._spin)  # noqa: SLF001
        self._before.record()

    def release(self, nonce: bytes) -> bool:
        """Ends what is timed; nobody need be told before the device is done."""
        del nonce
        self._after.record()
        self._is_dry = bool(self._before.query())
        return False

    def settle(self) -> None:
        """Waits for the device, and hands over the answer and the claim."""
        self._torch.cuda.synchronize()
        shared, twin = self._twins[1]
        shared.copy_(twin)
        self._claim[0] = 1000 * self._before.elapsed_time(self._after)
        self._claim[1] = _DRY if self._is_dry else 0.0
        if self._is_dry:
            self._spin = min(2 * self._spin, SPIN_CYCLES_MAX)

    def _map(self, descriptor: int) -> Any:
        shared = super()._map(descriptor)
        self._twins.append((shared, shared.to("cuda")))
        return self._twins[-1][1]
