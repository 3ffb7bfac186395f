"""The guest process: loads the submission and answers calls until the socket closes.

Nothing said here is believed: the submission may rewrite all of it at run time, and can only harm
itself so. What counts is what the supervisor finds in the answer's memory, by its own clock.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
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
    LAYOUT_BYTES_MAX,
    NONCE_BYTES,
    READY,
)

_PR_SET_PDEATHSIG = 1
_KILLED_FIRST = "1000"


def main() -> None:
    """Arguments: the control socket's descriptor, the supervisor's pid, the submission's path."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _die_with(int(sys.argv[2]))
    _die_first()
    path = Path(sys.argv[3])
    sys.argv[1:] = []
    sys.path.insert(0, str(path.parent))
    _import_torch()
    try:
        kernel = load(path)
    except Unusable as reason:
        control.send(_failed(reason))
        return
    control.send(READY)
    _serve(control, kernel, path)


def _die_with(supervisor: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)


def _die_first() -> None:
    """Where memory runs out, this process goes before anything of the platform."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="ascii")


def _import_torch() -> None:
    """Without the collector, which takes a tenth of the import's time and then finds nothing."""
    gc.disable()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()


def _serve(control: socket.socket, kernel: Kernel, path: Path) -> None:
    case: SharedCase | None = None
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LAYOUT_BYTES_MAX, 2)
        if not message:
            return
        if message[:1] == CASE:
            case = SharedCase(message[1:], descriptors)
        elif case is not None:
            control.send(_answer(kernel, case, message[1:], path))


def _answer(kernel: Kernel, case: SharedCase, call: bytes, path: Path) -> bytes:
    nonce, scalars = call[:NONCE_BYTES], call[NONCE_BYTES:]
    try:
        case.commit(kernel(case.data(scalars)))
    except Mismatch as mismatch:
        return _failed(Unusable("output", str(mismatch)))
    except BaseException as error:  # noqa: BLE001  (whatever it was, the supervisor must hear it)
        return _failed(failure(error, path, "exception"))
    return DONE + nonce


def _failed(reason: Unusable) -> bytes:
    return FAILED + json.dumps({"kind": reason.kind, "text": reason.text}).encode()


if __name__ == "__main__":
    main()
