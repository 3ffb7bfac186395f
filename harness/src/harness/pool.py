"""Several warm supervisors for one device, each of which runs one request at a time.

Their runs share a lock: a run holds the device only while it checks on it or times, and builds
without it. See `harness.devices.lock`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from harness.devices.lock import make_device_lock, share_device
from harness.entry import Harness, SupervisorFailed, memory_bytes, usual_sandbox_bytes
from harness.vocabulary import CPU_DEVICE

# On a GPU one run builds while another one has the device.
GPU_SLOTS = 2


def count_slots(device: str) -> int:
    """Return how many runs a pool for this device has by default."""
    slot_count = len(os.sched_getaffinity(0)) if device == CPU_DEVICE else GPU_SLOTS
    return max(1, min(slot_count, count_fitting_slots(device)))


def count_fitting_slots(device: str) -> int:
    """Return for how many runs at once this machine has the memory that each may use."""
    return memory_bytes() // usual_sandbox_bytes(device)


class HarnessPool:
    """Lends each of its supervisors to one run at a time; all are for one device of this machine.

    Use it in one thread that outlives it. `options` are those of `Harness`. A supervisor starts
    when it is used first, and again after it ended; on the device `cpu` not while a run is timed.
    """

    def __init__(self, slots: int, *, device: str = CPU_DEVICE, **options: Any) -> None:
        if slots < 1:
            raise ValueError(f"slots is {slots}, expected 1 at least")
        self.slots = slots
        self._is_cpu = device == CPU_DEVICE
        # One run alone on its device needs no lock.
        self.device_lock = make_device_lock() if slots > 1 else ()
        options |= {"device_lock": self.device_lock, "slots": slots} if slots > 1 else {}
        self.harnesses = tuple(Harness(**options, slot=slot) for slot in range(slots))
        self._free = list(reversed(self.harnesses))
        self._semaphore = asyncio.Semaphore(slots)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def free_slots(self) -> int:
        """How many more runs could start now."""
        return len(self._free)

    @property
    def has_left(self) -> bool:
        """Whether a process of a run could not be killed, so that no run beside it is safe."""
        return any(harness.has_left for harness in self.harnesses)

    async def warm(self) -> None:
        """Start every supervisor. Raises SupervisorFailed if one cannot be started."""
        await asyncio.gather(*(harness.warm() for harness in self.harnesses))

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Harness]:
        """Wait for a free supervisor and lend it for one run. Raises RuntimeError once closed."""
        if self._is_closed:
            # Its lock is closed, and the same descriptors may be other files by now.
            raise RuntimeError("the pool of supervisors is closed")
        async with self._semaphore:
            # The one that was used last: the others need not be started before they are needed.
            harness = self._free.pop()
            try:
                await self._start(harness)
                yield harness
            finally:
                self._free.append(harness)

    async def restore(self) -> None:
        """Start the supervisors that have no run and cannot take one, before one needs them."""
        await asyncio.gather(*map(self._start, self._free))

    async def _start(self, harness: Harness) -> None:
        """Start a supervisor if none runs; if it cannot be started, its run reports why."""
        if not harness.is_ready:
            async with self.share_cores():
                with contextlib.suppress(SupervisorFailed):
                    await harness.warm()

    @asynccontextmanager
    async def share_cores(self) -> AsyncIterator[None]:
        """Wait until work outside of a run disturbs none that is timed on the processor."""
        async with share_device(self.device_lock if self._is_cpu else ()):
            yield

    async def close(self) -> None:
        """End every supervisor and every process beneath them, for good."""
        self._is_closed = True
        await asyncio.gather(*(harness.close() for harness in self.harnesses))
        for descriptor in self.device_lock:
            os.close(descriptor)
        self.device_lock = ()
