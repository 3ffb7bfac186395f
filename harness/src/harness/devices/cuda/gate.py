"""One gated call on a GPU: the order of its steps is the defence, and nothing here waits for ever.

The worker's launches queue up behind a word of memory that the referee alone will write. By the
referee's own clock: inputs revealed, gate open, done said, a witness of the answer kept. Only then
the clock stops, and the whole answer is copied before anything else runs on the stream.
"""

import ctypes
import importlib
import secrets
import time
from dataclasses import dataclass
from typing import Any

from harness.devices.cuda.call import Call
from harness.devices.cuda.driver import NON_BLOCKING, WAIT_EQUAL, Driver, DriverError
from harness.devices.cuda.kernels import Kernels
from harness.devices.cuda.lane import Lane
from harness.devices.cuda.memory import Inputs
from harness.devices.cuda.rules import Shot
from harness.devices.device import DeviceFault, Foul, Window

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
_ALONE = 1
_GRID = (WITNESSES // 256, 256)


@dataclass(frozen=True)
class Facts:
    """What the referee has to know of its device; `clock` is the clock that ranks."""

    place: str
    multiprocessors: int
    flush_bytes: int
    clock: str


class Referee:
    """The trusted side of the gate. Errors: DeviceFault, CaseFailed (the window's), Foul."""

    def __init__(self, driver: Driver, kernels: Kernels, facts: Facts, lane: Lane) -> None:
        torch: Any = importlib.import_module("torch")
        self._torch = torch
        self._driver = driver
        self._kernels = kernels
        self._facts = facts
        self.lane = lane
        self._handle = lane.handle
        self._aside = driver.pointer("cuStreamCreate", NON_BLOCKING)
        self._before, self._after, self._end = (driver.pointer("cuEventCreate", 0) for _ in "123")
        self._words = torch.zeros(_WORDS, dtype=torch.int64, device=facts.place)
        self._kept = torch.zeros(WITNESSES * 16, dtype=torch.uint8, device=facts.place)
        # One memory is written and another read, so that no line of the second is ever dirty.
        size = facts.flush_bytes
        self._dirty, self._clean = (
            torch.zeros(size, dtype=torch.uint8, device=facts.place) for _ in "12"
        )
        self._state = self._words.data_ptr()
        self._began_at = self._state + _STATE_BYTES
        self._ended_at = self._began_at + 8

    def shoot(self, window: Window, way: str) -> Shot:
        """One call. `way` is blanket, or strict (a spot check is strict too)."""
        if (ranks := len(window.memories)) != 1:
            raise DeviceFault(f"a referee of one GPU was asked for {ranks} ranks")
        call = Call.of(window, 0)
        with self.lane.entered():
            window.show()
            try:
                window.go()
                is_armed = window.armed(ARMED_S_MAX)
                self._reveal(call, way)
            except BaseException:
                self.abandon(call)
                raise
            return self.shot(way, is_armed=is_armed)

    def settle(self, within_s: float) -> bool:
        """Waits for all that was enqueued. Errors: DriverError."""
        self._driver("cuEventRecord", self._end, self._handle)
        return self._is_over(within_s)

    def span_us(self, enqueue: Any) -> float:
        """The time, by events, of what `enqueue` puts on the stream it is given."""
        self.flush()
        self._driver("cuEventRecord", self._before, self._handle)
        enqueue(self._handle)
        self._driver("cuEventRecord", self._after, self._handle)
        if not self.settle(DRAIN_S_MAX):
            raise DeviceFault("a reference kernel did not end")
        return 1000 * self._driver.milliseconds(self._before, self._after)

    def span_by_cupy_us(self, cupy: Any, enqueue: Any) -> float:
        """The same by cupy's events: a second opinion, which never ranks."""
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        stream = cupy.cuda.ExternalStream(self._handle)
        self.flush()
        before.record(stream)
        enqueue(self._handle)
        after.record(stream)
        if not self.settle(DRAIN_S_MAX):
            raise DeviceFault("a reference kernel did not end")
        return 1000 * float(cupy.cuda.get_elapsed_time(before, after))

    def flush(self) -> None:
        """Enqueues the two sweeps that empty the caches."""
        grid = (4 * self._facts.multiprocessors, 512)
        pieces = ctypes.c_uint64(self._facts.flush_bytes // 16)
        value = ctypes.c_uint32(secrets.randbits(32))
        dirty, clean = _address(self._dirty.data_ptr()), _address(self._clean.data_ptr())
        sink = _address(self._state + _STATE_BYTES + 16)
        # Not every device has such lines; where it has none there is nothing to reset.
        self._driver.status("cuCtxResetPersistingL2Cache")
        self._kernels["k_flush_write"](self._handle, grid, dirty, pieces, value)
        self._kernels["k_flush_read"](self._handle, grid, clean, pieces, sink)

    def _reveal(self, call: Call, way: str) -> None:
        for _ in range(BLANKETS_MAX):
            self._enqueue(call, way)
            self.finish(call)
            if way != "blanket" or self._word(_DECISION) == _ALONE:
                break
            time.sleep(BLANKET_PAUSE_S)
        else:
            raise Foul("protocol", "the submission's work runs outside of its calls")
        call.hear()
        self.require_stillness()

    def require_stillness(self) -> None:
        """Errors: Foul, if the answer changed after the work was said to be done."""
        if late := self._word(_LATE):
            raise Foul("late_write", f"{late} places changed after the work was said to be done")

    def _enqueue(self, call: Call, way: str) -> None:
        self.clear(call)
        if way == "blanket":
            self._enqueue_blanket(call)
        else:
            self._enqueue_strict(call)
        self.commit(call)
        call.window.hold()
        self.seal(call)

    def clear(self, call: Call) -> None:
        """Enqueues that nothing has been said yet."""
        self._driver("cuMemsetD32Async", self._state, 0, 2 * _WORDS, self._handle)
        self._driver("cuStreamWriteValue32_v2", self._handle, call.done_at, 0, 0)

    def start(self) -> None:
        """Enqueues the start of both clocks."""
        self._kernels["k_stamp"](self._handle, (1, 1), _address(self._began_at))
        self._driver("cuEventRecord", self._before, self._handle)

    def reveal(self, call: Call) -> None:
        """Enqueues the copy of the inputs, and the word that opens the gate."""
        self.copy(call.inputs)
        write = "cuStreamWriteValue32_v2"
        self._driver(write, self._handle, call.reveal_at, call.reveal, 0)

    def commit(self, call: Call) -> None:
        """Enqueues the wait for the word of the end, the witness, and the stop of both clocks."""
        stream, witness = self._handle, self._witness(call)
        self._driver("cuStreamWaitValue32_v2", stream, call.done_at, call.done, WAIT_EQUAL)
        self._kernels["k_witness"](stream, _GRID, *witness, _address(self._ended_at))
        self._driver("cuEventRecord", self._after, stream)

    def seal(self, call: Call) -> None:
        """Enqueues the look whether the answer that was copied is what the witness saw."""
        self._kernels["k_recall"](self._handle, _GRID, *self._witness(call))
        self._driver("cuEventRecord", self._end, self._handle)

    def _witness(self, call: Call) -> tuple[Any, ...]:
        return (
            _address(call.outputs.address),
            ctypes.c_uint64(call.outputs.size // 16),
            ctypes.c_uint64(call.seed),
            _address(self._kept.data_ptr()),
            ctypes.c_uint32(WITNESSES),
            _address(self._state),
        )

    def _enqueue_blanket(self, call: Call) -> None:
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
            ctypes.c_uint32(call.done),
            _address(self._began_at),
            shared_bytes=self._kernels.blanket_bytes,
        )
        self._driver("cuEventRecord", self._before, self._handle)

    def _enqueue_strict(self, call: Call) -> None:
        self.flush()
        self.start()
        self.reveal(call)

    def copy(self, inputs: Inputs) -> None:
        """Enqueues the copy of the private inputs to where the worker sees them."""
        grid = (8 * self._facts.multiprocessors, 256)
        to, source = _address(inputs.address), _address(inputs.bytes.data_ptr())
        self._kernels["k_copy"](self._handle, grid, to, source, ctypes.c_uint64(inputs.size // 16))

    def finish(self, call: Call) -> None:
        """Waits for the whole call, first with the worker stopped, then with it running.

        Errors: Foul, DeviceFault, those of the window.
        """
        try:
            if self._is_over(FROZEN_S_MAX):
                return
            call.hear()
            if self._is_over(SETTLE_S_MAX):
                return
        except DriverError as error:
            # The worker's fault may have taken our context with it: then its end is the reason.
            call.hear()
            raise DeviceFault(f"the device failed under a living worker: {error}") from error
        raise Foul("protocol", "the worker said that it was done, its work did not")

    def _is_over(self, within_s: float) -> bool:
        began = time.monotonic()
        while not self._driver.is_over(self._end):
            waited_s = time.monotonic() - began
            if waited_s > within_s:
                return False
            if waited_s > _SPIN_S:
                time.sleep(_PAUSE_S)
        return True

    def abandon(self, call: Call) -> None:
        """Opens the gate and says done in the worker's place, so that no queue waits for ever."""
        write = "cuStreamWriteValue32_v2"
        for at, word in ((call.reveal_at, call.reveal), (call.done_at, call.done)):
            self._driver.status(write, self._aside, at, word, 0)
        try:
            is_over = self.settle(DRAIN_S_MAX)
        except DriverError:
            return  # broken with its worker; whoever uses it next is told
        if not is_over:
            raise DeviceFault("the referee's stream does not end")

    def _word(self, which: int) -> int:
        return int(self._words.view(self._torch.int32)[which].item())

    def shot(self, way: str, *, is_armed: bool) -> Shot:
        """What the clocks saw of the call that is over."""
        began, ended = self._words[_STATE_BYTES // 8 : _STATE_BYTES // 8 + 2].tolist()
        stamps_us = (ended - began) / 1000
        events_us = 1000 * self._driver.milliseconds(self._before, self._after)
        time_us = stamps_us if self._facts.clock == "stamps" else events_us
        return Shot(way, time_us, stamps_us, events_us, is_armed)


def _address(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)
