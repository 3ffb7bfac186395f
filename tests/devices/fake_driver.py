"""An imitation of CUDA's driver for several GPUs: streams that advance in turn, with clocks."""

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.devices.cuda.driver import NOT_READY, Driver
from harness.devices.cuda.multi_gpu import HostFlags

INVALID_HANDLE = 400
ECC_ERROR, ILLEGAL_ADDRESS = 214, 700
KERNEL_FAULT = "CUDA_ERROR_ILLEGAL_ADDRESS"
UNSUPPORTED = 801
STEP_NS = 1000
# Far apart, as the timers of different devices may be.
EPOCH_NS = 3_600_000_000_000

Operation = Callable[[], bool]


@dataclass
class Stream:
    """What is enqueued on a device, and when the current operation will be over."""

    device: int
    queue: deque[Operation] = field(default_factory=deque)
    busy_until_ns: int = -1


class Machine(Driver):
    """The driver of several GPUs; the context of one is current at a time."""

    def __init__(self, *gpus: str) -> None:
        self.gpus = gpus
        self.now_ns = 0
        self.current = 0
        self.error = 0
        self.streams: dict[int, Stream] = {}
        self.log: list[tuple[str, int, int]] = []
        self.slow_ns: dict[tuple[str, int], int] = {}
        # The contexts that were opened, in the order of the log.
        self.contexts: list[str] = []
        self.free_bytes = self.total_bytes = 80 * 1024**3
        self._events: dict[int, int] = {}
        self._waiting: dict[int, int] = defaultdict(int)
        self._handles = iter(range(1000, 1_000_000))

    def status(self, name: str, *arguments: Any) -> int:
        """One call of the driver, by its exported name; in a broken context each fails."""
        if self.error and name != "cuGetErrorName":
            return self.error
        answer = getattr(self, f"_{name.removesuffix('_v2')}", None)
        return int(answer(*arguments)) if answer else UNSUPPORTED

    def stream(self, device: int) -> int:
        """A new stream of a device."""
        handle = next(self._handles)
        self.streams[handle] = Stream(device)
        return handle

    def enqueue(
        self, stream: int, what: str, effect: Callable[[], object], takes_ns: int = 0
    ) -> int:
        """Puts on a stream what is to happen when its turn comes; a status, as of a launch."""
        one = self.streams[stream]
        if one.device != self.current:
            return INVALID_HANDLE
        takes_ns += self.slow_ns.get((what, one.device), 0)

        def run() -> bool:
            if one.busy_until_ns < 0:
                one.busy_until_ns = self.now_ns + takes_ns
            if self.now_ns < one.busy_until_ns:
                return False
            one.busy_until_ns = -1
            effect()
            self.log.append((what, one.device, self.now_ns))
            return True

        one.queue.append(run)
        return 0

    def hold_up(self, stream: int, is_so: Callable[[], bool]) -> int:
        """Keeps a stream where it is until something is so."""
        if self.streams[stream].device != self.current:
            return INVALID_HANDLE
        self.streams[stream].queue.append(is_so)
        return 0

    def step(self) -> None:
        """A little time passes, in which every stream goes on as far as it can."""
        self.now_ns += STEP_NS
        for stream in self.streams.values():
            while stream.queue and stream.queue[0]():
                stream.queue.popleft()

    def timer_ns(self, device: int) -> int:
        """The device's own clock."""
        return self.now_ns + device * EPOCH_NS

    def when(self, what: str) -> dict[int, int]:
        """When something happened last on each device."""
        return {device: at for said, device, at in self.log if said == what}

    @contextmanager
    def at(self, device: int) -> Iterator[None]:
        """Within it a device's context is current."""
        before, self.current = self.current, device
        yield
        self.current = before

    def _cuGetErrorName(self, error: int, out: Any) -> int:  # noqa: N802  (the driver's names)
        out._obj.value = KERNEL_FAULT.encode() if error == ILLEGAL_ADDRESS else None
        return 0

    def _cuDeviceGetCount(self, out: Any) -> int:  # noqa: N802
        out._obj.value = len(self.gpus)
        return 0

    def _cuDeviceGet(self, out: Any, position: int) -> int:  # noqa: N802
        out._obj.value = position
        return 0

    def _cuDeviceGetName(self, out: Any, _size: int, device: int) -> int:  # noqa: N802
        out.value = self.gpus[device].encode()
        return 0

    def _cuDeviceGetUuid(self, out: Any, device: int) -> int:  # noqa: N802
        out.raw = bytes([device] * 16)
        return 0

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> int:  # noqa: N802
        self.contexts.append("context")
        self.log.append(("context", device, self.now_ns))
        out._obj.value = device + 1
        return 0

    def _cuMemGetInfo(self, free: Any, total: Any) -> int:  # noqa: N802
        free._obj.value, total._obj.value = self.free_bytes, self.total_bytes
        return 0

    def _cuCtxSetCurrent(self, context: Any) -> int:  # noqa: N802
        self.current = context.value - 1
        return 0

    def _cuStreamCreate(self, out: Any, _flags: int) -> int:  # noqa: N802
        out._obj.value = self.stream(self.current)
        return 0

    def _cuEventCreate(self, out: Any, _flags: int) -> int:  # noqa: N802
        out._obj.value = next(self._handles)
        return 0

    def _cuEventRecord(self, event: Any, stream: int) -> int:  # noqa: N802
        key = event.value
        self._waiting[key] += 1

        def happen() -> None:
            self._waiting[key] -= 1
            self._events[key] = self.timer_ns(self.streams[stream].device)

        return self.enqueue(stream, "event", happen)

    def _cuEventQuery(self, event: Any) -> int:  # noqa: N802
        self.step()
        return NOT_READY if self._waiting[event.value] else 0

    def _cuEventElapsedTime(self, out: Any, before: Any, after: Any) -> int:  # noqa: N802
        out._obj.value = (self._events[after.value] - self._events[before.value]) / 1e6
        return 0

    def _cuMemsetD32Async(self, at: int, value: int, count: int, stream: int) -> int:  # noqa: N802
        return self.enqueue(stream, "clear", lambda: write(at, *[value] * count))

    def _cuStreamWriteValue32(self, stream: Any, at: int, value: int, _: int) -> int:  # noqa: N802
        return self.enqueue(_number(stream), "write", lambda: write(at, value))

    def _cuStreamWaitValue32(self, stream: Any, at: int, value: int, _: int) -> int:  # noqa: N802
        return self.hold_up(_number(stream), lambda: read(at) == value)


class Kernels:
    """Our kernels, run on the host; slow ones are listed in the machine's `slow_ns`."""

    blanket_bytes = 0

    def __init__(self, machine: Machine, device: int) -> None:
        self._machine = machine
        self._device = device

    def __getitem__(self, name: str) -> Callable[..., None]:
        def launch(stream: int, _grid: tuple[int, int], *arguments: Any) -> None:
            values = [argument.value for argument in arguments]
            effect = getattr(self, f"_{name}", lambda *_: None)
            status = self._machine.enqueue(stream, name, lambda: effect(*values))
            assert status == 0, f"{name} was launched in another device's context"

        return launch

    def _k_stamp(self, at: int) -> None:
        ctypes.c_uint64.from_address(at).value = self._machine.timer_ns(self._device)

    def _k_copy(self, to: int, source: int, pieces: int) -> None:
        ctypes.memmove(to, source, 16 * pieces)

    def _k_witness(self, *given: int) -> None:
        answer, pieces, _, kept, count, _, ended_at = given
        ctypes.memmove(kept, answer, 16 * min(pieces, count))
        self._k_stamp(ended_at)

    def _k_recall(
        self, answer: int, pieces: int, _: int, kept: int, count: int, state: int
    ) -> None:
        size = 16 * min(pieces, count)
        late = ctypes.string_at(kept, size) != ctypes.string_at(answer, size)
        write(state + 4 * 7, int(late))


@dataclass
class Lane:
    """A referee's stream."""

    machine: Machine
    device: int
    handle: int

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Torch's work is done at once here."""
        yield

    @contextmanager
    def current(self) -> Iterator[None]:
        """Within it the device's context is current."""
        with self.machine.at(self.device):
            yield


class SteppingWords(HostFlags):
    """Words that devices write to while the host reads them."""

    def __init__(self, memory: Any, machine: Machine) -> None:
        super().__init__(memory)
        self._machine = machine

    def has_said(self, place: int, word: int) -> bool:
        """A little time passes with every look."""
        self._machine.step()
        return super().has_said(place, word)


def write(at: int, *words: int) -> None:
    """Words of 32 bits from an address on."""
    (ctypes.c_uint32 * len(words)).from_address(at)[:] = list(words)


def read(at: int) -> int:
    """The word of 32 bits at an address."""
    return ctypes.c_uint32.from_address(at).value


def _number(stream: Any) -> int:
    return stream if isinstance(stream, int) else int(stream.value)
