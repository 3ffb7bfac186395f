"""A case on a GPU: the referee's memory, and a gate that its launches wait for.

None of it is trusted: a worker that opens the gate early finds no input, and one that reports done
early is caught by the referee's copy of the answer. What it needs of CUDA's driver repeats a small
part of the referee's code on purpose: a worker imports no trusted code.

For devices whose memory cannot be shared, the worker times the case itself. Inputs and outputs
cross in host memory, outside of the timed part. The time is the worker's own claim, so it never
ranks; but caches are flushed and launches queued as for a trusted time.
"""

import ctypes
import importlib
import json
import os
from collections.abc import Callable
from typing import Any

from harness.worker.memory import SharedCase

POINTER = ctypes.c_void_p
_ADDRESS = ctypes.c_uint64
_U32 = ctypes.c_uint
_U64 = ctypes.c_ulonglong
_SIZE = ctypes.c_size_t

_DEVICE = 1
_DESCRIPTOR = 1
_READ_WRITE = 3
_WAIT_EQUAL = 1

# Checked against cuda.h of CUDA 13.0; without them ctypes would truncate pointers.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuMemImportFromShareableHandle": (POINTER, POINTER, ctypes.c_int),
    "cuMemAddressReserve": (POINTER, _SIZE, _SIZE, _ADDRESS, _U64),
    "cuMemMap": (_ADDRESS, _SIZE, _SIZE, _U64, _U64),
    "cuMemSetAccess": (_ADDRESS, _SIZE, POINTER, _SIZE),
    "cuMemRelease": (_U64,),
    "cuStreamWaitValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamWriteValue32_v2": (POINTER, _ADDRESS, _U32, _U32),
    "cuStreamCreate": (POINTER, _U32),
    "cuEventCreate": (POINTER, _U32),
    "cuEventRecord": (POINTER, POINTER),
    "cuStreamWaitEvent": (POINTER, POINTER, _U32),
}

# The same as in the referee's harness.devices.cuda.memory.
_REVEAL_AT = 0
_DONE_AT = 64
_TRIAL_AT = 128
_LEGACY_STREAM = 1

SPIN_CYCLES = 200_000
SPIN_CYCLES_MAX = 4_000_000
_DRY = 1.0


class CudaDriverError(RuntimeError):
    """The driver refused a call."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemoryAccess(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Driver:
    """The driver's library, in torch's context. Any method can raise CudaDriverError, OSError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        for name, types in SIGNATURES.items():
            getattr(self._library, name).argtypes = types

    def map(self, descriptor: int, size: int) -> int:
        """Map the memory of a descriptor and return its address; closes the descriptor."""
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        try:
            name = "cuMemImportFromShareableHandle"
            self._call(name, ctypes.byref(handle), descriptor, _DESCRIPTOR)
        finally:
            os.close(descriptor)
        self._call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        self._call("cuMemMap", address.value, size, 0, handle.value, 0)
        access = MemoryAccess(_Location(_DEVICE, 0), _READ_WRITE)
        self._call("cuMemSetAccess", address.value, size, ctypes.byref(access), 1)
        self._call("cuMemRelease", handle.value)
        return address.value

    def accepts_words(self, stream: int, address: int) -> bool:
        """Return whether a stream can write a word, as it must later."""
        return not self._status("cuStreamWriteValue32_v2", stream, address, 0, 0)

    def wait(self, stream: int, address: int, word: int) -> None:
        """Enqueue a wait until a word is there."""
        self._call("cuStreamWaitValue32_v2", stream, address, word, _WAIT_EQUAL)

    def write(self, stream: int, address: int, word: int) -> None:
        """Enqueue the write of a word."""
        self._call("cuStreamWriteValue32_v2", stream, address, word, 0)

    def stream(self) -> int:
        """Create a stream that synchronises with the legacy stream."""
        return self._create("cuStreamCreate", 0)

    def event(self) -> int:
        """Create an event."""
        return self._create("cuEventCreate", 2)

    def follow(self, stream: int, event: int, first: int) -> None:
        """Make a stream wait for what another stream holds now."""
        self._call("cuEventRecord", event, first)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def _create(self, name: str, flags: int) -> int:
        value = ctypes.c_void_p()
        self._call(name, ctypes.byref(value), flags)
        return value.value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        if status := self._status(name, *arguments):
            raise CudaDriverError(f"the CUDA driver answered {name} with error {status}")

    def _status(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))


def open_context() -> None:
    """Open the GPU's context in this process, and torch in it, once. Raises RuntimeError."""
    torch: Any = importlib.import_module("torch")
    if torch.cuda.is_initialized():
        return
    torch.cuda.init()
    torch.zeros(1, device="cuda")


class CudaCase(SharedCase):
    """A case whose tensors lie in the device's memory. Raises CudaDriverError, RuntimeError.

    The layout's `memories` say how many `bytes` to map for inputs and outputs, and for the inputs
    where the `gate` is; without one, calls are not gated.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        self._driver = Driver()
        self._memory_layouts = iter(json.loads(layout)["memories"])
        self._gate = _Gate(self._driver)
        self._maps: list[Any] = []
        super().__init__(layout, descriptors)

    def gate(self, nonce: bytes) -> None:
        """Close the gate for everything that is enqueued next."""
        self._gate.shut(nonce)

    def release(self, nonce: bytes) -> bool:
        """Enqueue the done word; True if the referee is to be told that all is enqueued."""
        return self._gate.done(nonce)

    def settle(self) -> None:
        """Wait for the device. Raises errors of the submission's kernels."""
        self._torch.cuda.synchronize()

    def _map(self, descriptor: int) -> Any:
        layout = next(self._memory_layouts)
        address = self._driver.map(descriptor, layout["bytes"])
        if "gate" in layout:
            self._gate.place(address + layout["gate"])
        self._maps.append(
            self._torch.as_tensor(_DeviceBytes(address, layout["bytes"]), device="cuda")
        )
        return self._maps[-1]


class CudaBatch(CudaCase):
    """`sets` input sets that are answered together; merging their launches is allowed here.

    A set takes `steps` bytes of inputs and of outputs, one after the other in the memories. The
    calls are captured in one graph; if that fails, they are made one after the other.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        super().__init__(layout, descriptors)
        sets, steps = (json.loads(layout)[word] for word in ("sets", "steps"))
        self._rows = [
            _BatchRow(
                layout,
                [m[i * step : (i + 1) * step] for m, step in zip(self._maps, steps, strict=True)],
            )
            for i in range(sets)
        ]
        self._graph: Any = None
        self._has_tried_capture = False

    def answer(self, kernel: Callable[[Any], Any], scalars: bytes) -> None:
        """Compute all answers. The first call captures a graph; later ones replay it."""
        if self._graph is not None:
            self._graph.replay()
            return
        self._answer_each(kernel, scalars)
        if self._has_tried_capture:
            return
        self._has_tried_capture = True
        graph = self._torch.cuda.CUDAGraph()
        try:
            with self._torch.cuda.graph(graph):
                self._answer_each(kernel, scalars)
        except RuntimeError:
            return  # calls that cannot be captured are made row by row
        self._graph = graph

    def _answer_each(self, kernel: Callable[[Any], Any], scalars: bytes) -> None:
        for row in self._rows:
            row.commit(kernel(row.data(scalars)))


class _BatchRow(SharedCase):
    """One input set of a batch, in a piece of the batch's memories."""

    def __init__(self, layout: bytes, pieces: list[Any]) -> None:
        self._pieces = pieces
        super().__init__(layout, [0, 1])
        # A message has no room to declare the form of each set.
        self._is_checked = False

    def _map(self, descriptor: int) -> Any:
        return self._pieces[descriptor]


class _Gate:
    """Where the words of a call are, and the stream that waits for them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._at = 0
        self._stream = _LEGACY_STREAM
        self._events: list[int] = []

    def place(self, address: int) -> None:
        """Set the mailbox. Raw launches use the legacy stream, so the gate is there if possible."""
        self._at = address
        if not self._driver.accepts_words(_LEGACY_STREAM, address + _TRIAL_AT):
            self._stream = self._driver.stream()
            self._events = [self._driver.event(), self._driver.event()]

    def shut(self, nonce: bytes) -> None:
        """Make everything that follows wait for the referee's word."""
        if not self._at:
            return
        self._driver.wait(self._stream, self._at + _REVEAL_AT, _word(nonce, 0))
        if self._events:
            self._driver.follow(_LEGACY_STREAM, self._events[0], self._stream)

    def done(self, nonce: bytes) -> bool:
        """Enqueue the done word after everything before; False if there is no gate."""
        if not self._at:
            return False
        if self._events:
            self._driver.follow(self._stream, self._events[1], _LEGACY_STREAM)
        self._driver.write(self._stream, self._at + _DONE_AT, _word(nonce, 4))
        return True


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


def _word(nonce: bytes, at: int) -> int:
    return int.from_bytes(nonce[at : at + 4], "little") | 1


class LocalCase(SharedCase):
    """A case with a copy of each of its memories on the device.

    The layout's `memories` say for the inputs where the `claim` goes (two doubles: microseconds,
    and whether the launch was visible) and how many bytes a `flush` sweeps.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        torch: Any = importlib.import_module("torch")
        layout_inputs = json.loads(layout)["memories"][0]
        self._twins: list[tuple[Any, Any]] = []
        super().__init__(layout, descriptors)
        offset = layout_inputs["claim"]
        self._claim = self._twins[0][0][offset : offset + 16].view(torch.float64)
        self._dirty, self._clean = (
            torch.zeros(layout_inputs["flush"] // 4, dtype=torch.int32, device="cuda") for _ in "12"
        )
        self._before, self._after = (torch.cuda.Event(enable_timing=True) for _ in "12")
        self._spin = SPIN_CYCLES
        self._was_launch_visible = False

    def gate(self, nonce: bytes) -> None:
        """Fetch the inputs, empty the caches, and keep the device busy while work queues up."""
        del nonce
        for shared, twin in self._twins:
            twin.copy_(shared)
        self._dirty.fill_(self._spin)
        self._clean.sum()
        # HIP has the same name for it. Without it launches are visible, and reported as such.
        if hasattr(self._torch.cuda, "_sleep"):
            self._torch.cuda._sleep(self._spin)  # noqa: SLF001
        self._before.record()

    def release(self, nonce: bytes) -> bool:
        """End the timed part; nobody is told before the device is done."""
        del nonce
        self._after.record()
        self._was_launch_visible = bool(self._before.query())
        return False

    def settle(self) -> None:
        """Wait for the device, and hand over the answer and the claim."""
        self._torch.cuda.synchronize()
        shared, twin = self._twins[1]
        shared.copy_(twin)
        self._claim[0] = 1000 * self._before.elapsed_time(self._after)
        self._claim[1] = _DRY if self._was_launch_visible else 0.0
        if self._was_launch_visible:
            self._spin = min(2 * self._spin, SPIN_CYCLES_MAX)

    def _map(self, descriptor: int) -> Any:
        shared = super()._map(descriptor)
        self._twins.append((shared, shared.to("cuda")))
        return self._twins[-1][1]
