"""The guest process: loads the submission and answers calls until the socket closes.

Nothing said here is believed: the submission may rewrite all of it at run time, and can only harm
itself so. What counts is what the supervisor finds in the answer's memory, by its own clock.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from harness.worker.build import Kernel, Unusable, failure, load
from harness.worker.memory import Mismatch, SharedCase
from harness.worker.protocol import (
    CASE,
    DONE,
    FAILED,
    GO,
    LAYOUT_BYTES_MAX,
    NONCE_BYTES,
    READY,
    SETUP,
)

_ANCILLARY_BYTES = 64


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
        # One buffer for all messages: a fresh one of this size costs more than a call's message.
        self._buffer = bytearray(LAYOUT_BYTES_MAX)
        self._kernel: Kernel | None = None
        self._case: SharedCase | None = None

    def serve(self) -> None:
        """One message after another. A call is recognised first: its time counts."""
        while True:
            message, descriptors = self._receive()
            kind = message[:1]
            if kind == GO:
                self._control.send(self._answer(message))
            elif kind == CASE:
                self._case = SharedCase(message[1:], descriptors)
            elif kind == SETUP:
                self._set_up(json.loads(message[1:]))
            else:
                return

    def _receive(self) -> tuple[bytes, list[int]]:
        size, ancillary, _, _ = self._control.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return bytes(memoryview(self._buffer)[:size]), descriptors.tolist()

    def _set_up(self, wish: dict[str, Any]) -> None:
        """Loads the submission; a null worker has none, and shows what a call costs without."""
        os.environ.update(wish.get("environment", {}))
        if cores := wish.get("cores"):
            os.sched_setaffinity(0, cores)
        _import_torch(wish.get("threads", 1))
        if wish.get("is_null"):
            self._kernel = self._null
        else:
            sys.path.insert(0, str(self._path.parent))
            try:
                self._kernel = load(self._path)
            except Unusable as reason:
                self._control.send(_failed(reason))
                return
        self._control.send(READY)

    def _null(self, _: Any) -> Any:
        """What costs nothing but the copy of an answer, which every call pays."""
        return self._case.blank if self._case else None

    def _answer(self, message: bytes) -> bytes:
        end = 1 + NONCE_BYTES
        assert self._case is not None
        assert self._kernel is not None
        try:
            self._case.commit(self._kernel(self._case.data(message[end:])))
        except Mismatch as mismatch:
            return _failed(Unusable("output", str(mismatch)))
        except BaseException as error:  # noqa: BLE001  (whatever it was, the supervisor must hear it)
            return _failed(failure(error, self._path, "exception"))
        return DONE + message[1:end]


def _import_torch(threads: int) -> None:
    """Without the collector, which takes a tenth of the import's time and then finds nothing."""
    gc.disable()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    gc.freeze()
    gc.enable()


def _failed(reason: Unusable) -> bytes:
    return FAILED + json.dumps({"kind": reason.kind, "text": reason.text}).encode()
