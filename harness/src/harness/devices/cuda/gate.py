"""One gated call on a GPU. The order of its steps is the defence, and every wait is bounded.

The worker's launches wait for a word of memory that only the referee writes. On the referee's own
stream and clock: reveal the inputs, open the gate, wait for done, keep a witness of the answer.
Only then the clock stops, and the whole answer is copied before anything else runs on the stream.
"""

import ctypes
import importlib
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from harness.devices.cuda.driver import NON_BLOCKING, WAIT_EQUAL, Driver, DriverError, Kernels
from harness.devices.cuda.memory import CudaInputs, RankCall
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import DeviceFault, RuleViolation, Window

ARMED_S_MAX = 0.005
FROZEN_S_MAX = 2.5
SETTLE_S_MAX = 1.0
DRAIN_S_MAX = 2.0
BLANKETS_MAX = 3
BLANKET_PAUSE_S = 0.017
WITNESSES = 4096

_SPIN_S = 0.002
_PAUSE_S = 0.0002
_WORDS = 16
_STATE_BYTES = 64
_DECISION, _LATE = 1, 7
_WAS_ALONE = 1
_GRID = (WITNESSES // 256, 256)

_address = ctypes.c_uint64


# What the driver raises in a broken context, and torch.
CONTEXT_ERRORS = (DriverError, RuntimeError)


def device_fault(calls: Sequence[RankCall], error: Exception) -> DeviceFault:
    """Return the fault of a device that broke during a call.

    With MPS, a worker's fault breaks the referee's context too. Then the worker's end is the
    reason: raises CaseFailed.
    """
    calls[0].wait_for_done()
    return DeviceFault(f"the device failed under living workers: {error}")


class RefereeStream:
    """The stream of one device for a referee's work; `handle` is the driver's."""

    def __init__(self, place: str) -> None:
        torch: Any = importlib.import_module("torch")
        self._cuda = torch.cuda
        self._place = place
        self._stream: Any = torch.cuda.Stream(place)
        self.handle = int(self._stream.cuda_stream)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within it, torch's work on the device uses this stream, after all earlier work."""
        context = self._cuda.stream(self._stream)
        context.__enter__()
        self._stream.wait_stream(self._cuda.default_stream(self._place))
        try:
            yield
        except BaseException:
            # In a broken context this fails too; the first error is the reason.
            with suppress(RuntimeError):
                context.__exit__(None, None, None)
            raise
        context.__exit__(None, None, None)

    def current(self) -> AbstractContextManager[Any]:
        """Within it, the driver's calls are for this device, where there are several."""
        device: AbstractContextManager[Any] = self._cuda.device(self._place)
        return device


@dataclass(frozen=True)
class DeviceFacts:
    """What the referee has to know about its device; `clock` is the clock that ranks."""

    place: str
    multiprocessors: int
    flush_bytes: int
    clock: str


class Referee:
    """The trusted side of the gate. Raises DeviceFault, RuleViolation and the window's errors."""

    def __init__(
        self, driver: Driver, kernels: Kernels, facts: DeviceFacts, lane: RefereeStream
    ) -> None:
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self._driver = driver
        self._kernels = kernels
        self._facts = facts
        self.lane = lane
        self._handle = lane.handle
        self._side_stream = driver.pointer("cuStreamCreate", NON_BLOCKING)
        self._before, self._after, self._end_event = (
            driver.pointer("cuEventCreate", 0) for _ in "123"
        )
        self._words = torch.zeros(_WORDS, dtype=torch.int64, device=facts.place)
        self._witness_memory = torch.zeros(WITNESSES * 16, dtype=torch.uint8, device=facts.place)
        # One memory is written and another one read, so that the second never has dirty lines.
        size = facts.flush_bytes
        self._dirty, self._clean = (
            torch.zeros(size, dtype=torch.uint8, device=facts.place) for _ in "12"
        )
        self._state = self._words.data_ptr()
        self._began_at = self._state + _STATE_BYTES
        self._ended_at = self._began_at + 8

    def shoot(self, window: Window, way: str) -> CallTiming:
        """Time one call. `way` is blanket, strict, or spot (a strict spot check)."""
        if (ranks := len(window.memories)) != 1:
            raise DeviceFault(f"a referee of one GPU was asked for {ranks} ranks")
        call = RankCall.of(window, 0)
        with self.lane.entered():
            window.show()
            try:
                window.go()
                is_armed = window.armed(ARMED_S_MAX)
                self._reveal_inputs(call, way)
            except CONTEXT_ERRORS as error:
                self.abandon(call)
                raise device_fault([call], error) from error
            except BaseException:
                self.abandon(call)
                raise
            return self.shot(way, is_armed=is_armed)

    def call_ungated(self, window: Window) -> None:
        """Make one call behind a gate that is open already, without a clock.

        The submission may load modules and compile in it. Behind a closed gate a module that is
        loaded at its kernel's first launch could wait for the gate. Raises the same errors as
        `shoot`.
        """
        call = RankCall.of(window, 0)
        with self.lane.entered():
            window.show()
            try:
                self.clear(call)
                self.reveal(call)
                self._require_end("the copy of the inputs")
                window.go()
                call.wait_for_done()
                window.hold()
                self._require_end("the copy of the answer")
            except CONTEXT_ERRORS as error:
                self.abandon(call)
                raise device_fault([call], error) from error
            except BaseException:
                self.abandon(call)
                raise

    def _require_end(self, what: str) -> None:
        if not self.settle(DRAIN_S_MAX):
            raise DeviceFault(f"{what} did not end")

    def settle(self, within_s: float) -> bool:
        """Wait for everything that was enqueued. Raises DriverError."""
        self._driver("cuEventRecord", self._end_event, self._handle)
        return self._wait_for_end(within_s)

    def error(self) -> str:
        """Return the driver's error if no kernel runs on its stream any more, "" if one does."""
        try:
            self._kernels["k_stamp"](self._handle, (1, 1), _address(self._began_at))
            return "" if self.settle(DRAIN_S_MAX) else "its stream does not end"
        except DriverError as error:
            return error.error

    def span_us(self, enqueue: Any) -> float:
        """Return the time, by events, of what `enqueue` puts on its stream."""
        self.flush()
        self._driver("cuEventRecord", self._before, self._handle)
        enqueue(self._handle)
        self._driver("cuEventRecord", self._after, self._handle)
        if not self.settle(DRAIN_S_MAX):
            raise DeviceFault("a kernel of the platform did not end")
        return 1000 * self._driver.milliseconds(self._before, self._after)

    def span_by_cupy_us(self, cupy: Any, enqueue: Any) -> float:
        """Return the same by cupy's events: a second opinion, which never ranks."""
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        stream = cupy.cuda.ExternalStream(self._handle)
        self.flush()
        before.record(stream)
        enqueue(self._handle)
        after.record(stream)
        if not self.settle(DRAIN_S_MAX):
            raise DeviceFault("a kernel of the platform did not end")
        return 1000 * float(cupy.cuda.get_elapsed_time(before, after))

    def flush(self) -> None:
        """Enqueue the two sweeps that empty the caches."""
        grid = (4 * self._facts.multiprocessors, 512)
        pieces = ctypes.c_uint64(self._facts.flush_bytes // 16)
        value = ctypes.c_uint32(secrets.randbits(32))
        dirty, clean = _address(self._dirty.data_ptr()), _address(self._clean.data_ptr())
        sink = _address(self._state + _STATE_BYTES + 16)
        # Not every device has persisting cache lines; without any there is nothing to reset.
        self._driver.status("cuCtxResetPersistingL2Cache")
        self._kernels["k_flush_write"](self._handle, grid, dirty, pieces, value)
        self._kernels["k_flush_read"](self._handle, grid, clean, pieces, sink)

    def _reveal_inputs(self, call: RankCall, way: str) -> None:
        for _ in range(BLANKETS_MAX):
            self._enqueue(call, way)
            self.finish(call)
            if way != "blanket" or self._read_word(_DECISION) == _WAS_ALONE:
                break
            time.sleep(BLANKET_PAUSE_S)
        else:
            raise RuleViolation("protocol", "the submission's work runs outside of its calls")
        call.wait_for_done()
        self.require_stillness()

    def require_stillness(self) -> None:
        """Raise RuleViolation if the answer changed after the work was reported done."""
        if changed := self._read_word(_LATE):
            raise RuleViolation(
                "late_write", f"{changed} places changed after the work was reported done"
            )

    def _enqueue(self, call: RankCall, way: str) -> None:
        self.clear(call)
        if way == "blanket":
            self._enqueue_blanket(call)
        else:
            self.flush()
            self.start()
            self.reveal(call)
        self.commit(call)
        call.window.hold()
        self.seal(call)

    def clear(self, call: RankCall) -> None:
        """Enqueue a reset of all words."""
        self._driver("cuMemsetD32Async", self._state, 0, 2 * _WORDS, self._handle)
        self._driver("cuStreamWriteValue32_v2", self._handle, call.done_at, 0, 0)

    def start(self) -> None:
        """Enqueue the start of both clocks."""
        self._kernels["k_stamp"](self._handle, (1, 1), _address(self._began_at))
        self._driver("cuEventRecord", self._before, self._handle)

    def reveal(self, call: RankCall) -> None:
        """Enqueue the copy of the inputs, and the word that opens the gate."""
        self.copy(call.inputs)
        write = "cuStreamWriteValue32_v2"
        self._driver(write, self._handle, call.reveal_at, call.reveal, 0)

    def commit(self, call: RankCall) -> None:
        """Enqueue the wait for the done word, the witness, and the stop of both clocks."""
        stream, witness = self._handle, self._witness(call)
        self._driver("cuStreamWaitValue32_v2", stream, call.done_at, call.done_word, WAIT_EQUAL)
        self._kernels["k_witness"](stream, _GRID, *witness, _address(self._ended_at))
        self._driver("cuEventRecord", self._after, stream)

    def seal(self, call: RankCall) -> None:
        """Enqueue the check that the copied answer is what the witness recorded."""
        self._kernels["k_recall"](self._handle, _GRID, *self._witness(call))
        self._driver("cuEventRecord", self._end_event, self._handle)

    def _witness(self, call: RankCall) -> tuple[Any, ...]:
        return (
            _address(call.outputs.address),
            ctypes.c_uint64(call.outputs.size // 16),
            ctypes.c_uint64(call.seed),
            _address(self._witness_memory.data_ptr()),
            ctypes.c_uint32(WITNESSES),
            _address(self._state),
        )

    def _enqueue_blanket(self, call: RankCall) -> None:
        self._kernels["k_blanket"](
            self._handle,
            (self._facts.multiprocessors, 1024),
            _address(call.inputs.bytes.data_ptr()),
            _address(call.inputs.address),
            ctypes.c_uint64(call.inputs.size // 16),
            _address(self._dirty.data_ptr()),
            _address(self._clean.data_ptr()),
            ctypes.c_uint64(self._facts.flush_bytes // 16),
            _address(self._state),
            _address(call.inputs.mailbox),
            ctypes.c_uint32(call.reveal),
            ctypes.c_uint32(call.done_word),
            _address(self._began_at),
            shared_bytes=self._kernels.blanket_bytes,
        )
        self._driver("cuEventRecord", self._before, self._handle)

    def copy(self, inputs: CudaInputs) -> None:
        """Enqueue the copy of the private inputs to where the worker sees them."""
        grid = (8 * self._facts.multiprocessors, 256)
        target, source = _address(inputs.address), _address(inputs.bytes.data_ptr())
        self._kernels["k_copy"](
            self._handle, grid, target, source, ctypes.c_uint64(inputs.size // 16)
        )

    def finish(self, call: RankCall) -> None:
        """Wait for the whole call, first with the worker frozen, then with it running.

        Raises RuleViolation, DriverError, and errors of the window.
        """
        if self._wait_for_end(FROZEN_S_MAX):
            return
        call.wait_for_done()
        if not self._wait_for_end(SETTLE_S_MAX):
            raise RuleViolation("protocol", "the worker reported done, but its work did not end")

    def _wait_for_end(self, within_s: float) -> bool:
        began = time.monotonic()
        while not self._driver.is_over(self._end_event):
            waited_s = time.monotonic() - began
            if waited_s > within_s:
                return False
            if waited_s > _SPIN_S:
                time.sleep(_PAUSE_S)
        return True

    def abandon(self, call: RankCall) -> None:
        """Open the gate and write done in the worker's place, so that no queue waits for ever."""
        write = "cuStreamWriteValue32_v2"
        for address, word in ((call.reveal_at, call.reveal), (call.done_at, call.done_word)):
            self._driver.status(write, self._side_stream, address, word, 0)
        try:
            is_over = self.settle(DRAIN_S_MAX)
        except DriverError:
            return  # broken together with its worker; the next use reports it
        if not is_over:
            raise DeviceFault("the referee's stream does not end")

    def _read_word(self, index: int) -> int:
        return int(self._words.view(self._torch.int32)[index].item())

    def shot(self, way: str, *, is_armed: bool) -> CallTiming:
        """Return what the clocks measured for the completed call."""
        began, ended = self._words[_STATE_BYTES // 8 : _STATE_BYTES // 8 + 2].tolist()
        stamps_us = (ended - began) / 1000
        events_us = 1000 * self._driver.milliseconds(self._before, self._after)
        time_us = stamps_us if self._facts.clock == "stamps" else events_us
        return CallTiming(way, time_us, stamps_us, events_us, is_armed)
