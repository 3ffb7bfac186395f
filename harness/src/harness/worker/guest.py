"""The guest process: loads the submission and answers calls until the socket closes.

Nothing said here is believed: the submission may rewrite all of it at run time, and can only harm
itself so. What counts is what the supervisor finds in the answer's memory, by its own clock.
"""

import array
import contextlib
import gc
import importlib
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.worker import builder, cache, capture, popcorn, profiling, settings
from harness.worker.build import Unusable, failure
from harness.worker.cases import case_of
from harness.worker.cuda import CudaBatch, CudaCase
from harness.worker.loading import Call, Loaded, loaded
from harness.worker.local import LocalCase
from harness.worker.memory import Mismatch, SharedCase
from harness.worker.probe import prepared
from harness.worker.protocol import (
    ARMED,
    CASE,
    DONE,
    FAILED,
    GO,
    LAYOUT_BYTES_MAX,
    NONCE_BYTES,
    PACK,
    PROBE,
    PROFILE,
    READY,
    SETUP,
    WARM,
)

_ANCILLARY_BYTES = 64
_HEAD_BYTES = 1 + NONCE_BYTES


def serve(descriptor: int, path: str) -> None:
    """Answers on a control socket until it closes; `path` is the submitted file's."""
    control = socket.socket(fileno=descriptor)
    sys.argv[1:] = []
    guest = Guest(control, Path(path))
    with contextlib.suppress(ConnectionError):
        guest.serve()


class Guest:
    """One worker: its socket, its submission, and the case in hand."""

    def __init__(self, control: socket.socket, path: Path) -> None:
        self._control = control
        self._path = path
        self._cache = ""
        # One buffer for all messages: a fresh one of this size costs more than a call's message.
        self._buffer = bytearray(LAYOUT_BYTES_MAX)
        self._load: Loaded | None = None
        self._call: Call | None = None
        self._nonce = b""
        self._is_bare = False

    def serve(self) -> None:
        """One message after another. A call is recognised first: its time counts."""
        while not self._is_bare:
            message, descriptors = self._receive()
            if message[:1] == GO:
                self._control.send(self._answer(message, self._run))
            elif not self._handle(message, descriptors):
                return
        self._answer_at_once()

    def _answer_at_once(self) -> None:
        """Answers calls as fast as anybody can: it looks at no data and never sleeps.

        What a submission that speaks the protocol by itself can save of a call is then the little
        by which a compiled loop is faster than this one.
        """
        receive, send, probe_us = self._control.recv, self._control.send, prepared()
        while True:
            try:
                message = receive(LAYOUT_BYTES_MAX, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            if message[:1] == GO:
                send(DONE + message[1:_HEAD_BYTES])
            elif message[:1] == PROBE:
                send(DONE + str(probe_us()).encode())
            elif not message:
                return

    def _handle(self, message: bytes, descriptors: list[int]) -> bool:
        """A message that is no plain call; False for the end."""
        kind = message[:1]
        if kind == WARM:
            self._tell(profiling.warm)
        elif kind == CASE:
            self._open(case_of(message[1:], descriptors))
        elif kind == SETUP:
            self._tell(lambda: self._set_up(json.loads(message[1:]), descriptors))
        elif kind == PACK:
            self._tell(lambda: cache.pack(self._cache, descriptors[0]))
        elif kind == PROFILE:
            self._control.send(self._answer(message, self._profiled(descriptors)))
        else:
            return False
        return True

    def _receive(self) -> tuple[bytes, list[int]]:
        size, ancillary, _, _ = self._control.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return bytes(memoryview(self._buffer)[:size]), descriptors.tolist()

    def _tell(self, work: Callable[[], object]) -> None:
        """Does what was asked, and says so, or why it could not be done."""
        try:
            work()
        except Unusable as reason:
            self._control.send(_failed(reason))
        else:
            self._control.send(READY)

    def _set_up(self, wish: dict[str, Any], descriptors: list[int]) -> None:
        """Becomes a builder, a profiler, a worker of one submission, a null worker, or a program.

        Errors: Unusable.
        """
        settings.add(wish.get("environment", {}))
        self._cache = wish.get("cache", "")
        if order := wish.get("order"):
            builder.build(order, descriptors[0])
            return
        if order := wish.get("capture"):
            capture.capture(order, descriptors, self._path)
            return
        if order := wish.get("popcorn"):
            popcorn.run(order, descriptors, self._path.parent)
            return
        if wish.get("is_bare_null"):
            _import_torch(1)
            self._is_bare = True
            return
        _import_torch(wish.get("threads", 1))
        self._load = loaded(self._path, wish, descriptors, self._cache)
        if backend := wish.get("group"):
            _join(backend, self._path)

    def _open(self, case: SharedCase | CudaBatch) -> None:
        assert self._load is not None
        call = self._load(case)
        if isinstance(case, CudaCase | CudaBatch | LocalCase):
            call = self._gated(case, call)
        self._call = call

    def _gated(self, case: CudaCase | CudaBatch | LocalCase, call: Call) -> Call:
        """On a GPU the work queues up behind a gate, which the referee opens when it is armed."""

        def run(scalars: bytes) -> bytes | None:
            case.gate(self._nonce)
            said = call(scalars)
            if case.release(self._nonce):
                self._control.send(ARMED + self._nonce)
            case.settle()
            return said

        return run

    def _run(self, scalars: bytes) -> bytes | None:
        assert self._call is not None
        return self._call(scalars)

    def _profiled(self, descriptors: list[int]) -> Call:
        def run(scalars: bytes) -> None:
            try:
                profiling.profile(lambda: self._run(scalars), *descriptors)
            except profiling.EmptyProfile as empty:
                raise Unusable("exception", str(empty)) from empty

        return run

    def _answer(self, message: bytes, run: Call) -> bytes:
        self._nonce = message[1:_HEAD_BYTES]
        try:
            said = run(message[_HEAD_BYTES:])
        except Mismatch as mismatch:
            return _failed(Unusable("output", str(mismatch)))
        except Unusable as reason:
            return _failed(reason)
        except BaseException as error:  # noqa: BLE001  (whatever it was, the supervisor must hear it)
            return _failed(failure(error, self._path, "exception"))
        return DONE + self._nonce + (said or b"")


def _join(backend: str, path: Path) -> None:
    """Makes the default process group, unless the submission has made its own by now."""
    distributed: Any = importlib.import_module("torch.distributed")
    if distributed.is_initialized():
        return
    try:
        distributed.init_process_group(backend)
    except Exception as error:
        raise failure(error, path, "import_error") from error


def _import_torch(threads: int) -> None:
    """Without the collector, which takes a tenth of the import's time and then finds nothing."""
    gc.disable()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    gc.freeze()
    gc.enable()


def _failed(reason: Unusable) -> bytes:
    return FAILED + json.dumps({"kind": reason.kind, "text": reason.text}).encode()
