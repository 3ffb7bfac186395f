"""Contexts of a GPU, for the workers of a zygote that imports this on a machine without one.

The environment of a box says how its context opens, and where the worker sees that the referee
opens the device too. A process of the tests themselves keeps its own torch.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.support.waits import until

WAY, REFEREE = "IMITATED_CONTEXT", "IMITATED_REFEREE"
OPENS, EXITS, RAISES, FAULTS, WAITS = "opens", "exits", "raises", "faults", "waits"
# It waits for nobody.
AT_ONCE = "at once"
# When the context of this process opened, by the clock that all processes share.
opened_at: list[float] = []
# The name of a worker in lists of processes from when it begins to open its context.
OPENING = "opens-context"
REFUSAL = "CUDA error: all CUDA-capable devices are busy or unavailable"
MEET_S_MAX = 15.0
_PR_SET_NAME = 15
_zeros: Any = torch.zeros


def open_imitation() -> None:
    """Open the context of this process as its environment says, in place of torch's."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, OPENING.encode())
    match os.environ[WAY]:
        case "exits":
            os._exit(3)
        case "raises":
            raise RuntimeError(REFUSAL)
        case "faults":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "waits":
            signal.pause()
    if os.environ[WAY] != AT_ONCE:
        until(Path(os.environ[REFEREE]).exists, MEET_S_MAX)
        os.write(1, b"the context is open\n")
    opened_at.append(time.monotonic())


def zeros(*size: int, device: str | None = None, **options: Any) -> Any:
    """Return zeros, which lie in the memory of the processor if they are for a GPU."""
    return _zeros(*size, device=None if device == "cuda" else device, **options)


if Path(sys.argv[0]).name == "zygote.py":
    vars(torch.cuda).update(init=open_imitation, is_initialized=lambda: bool(opened_at))
    vars(torch).update(zeros=zeros)
