"""What a worker does between its walls and its work: nothing of the zygote's chance is left."""

import ctypes
import importlib
import os
import random
import secrets
import sys
import tempfile
import traceback
from typing import Any, NoReturn

from harness.sandbox.settings import replace_environment
from harness.sandbox.spec import Spec

_SHIFT_BYTES_MAX = 64 * 1024
_PAGES_MAX = 4096
_PAGE_BYTES = 4096
_STEP_BYTES = 64
_BLOCKS_MAX = 8


def serve(spec: Spec, control: int) -> NoReturn:
    """Serves the submission on a control socket and ends this process, whatever comes of it."""
    status = 1
    try:
        replace_environment(spec.environment)
        sys.argv[:] = [spec.path]
        tempfile.tempdir = None
        _take_chances()
        guest: Any = importlib.import_module("harness.worker.guest")
        guest.serve(control, spec.path)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  (whatever it was, it belongs into the log)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status & 0xFF)


def _take_chances() -> None:
    """Generators and heap anew: forks of one process would share both.

    The hash seed is fixed when an interpreter starts, so all boxes of one zygote share it; the
    supervisor is another program and does not.
    """
    random.seed()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed(secrets.randbits(32))
    if torch := sys.modules.get("torch"):
        torch.manual_seed(secrets.randbits(63))
    # Never freed: the next small and the next large block lie elsewhere in every worker.
    libc = ctypes.CDLL(None)
    for size in range(_STEP_BYTES, _PAGE_BYTES, _STEP_BYTES):
        for _ in range(secrets.randbelow(_BLOCKS_MAX)):
            libc.malloc(ctypes.c_size_t(size))
    libc.malloc(ctypes.c_size_t(secrets.randbelow(_SHIFT_BYTES_MAX)))
    libc.malloc(ctypes.c_size_t(_SHIFT_BYTES_MAX * 4 + secrets.randbelow(_PAGES_MAX) * _PAGE_BYTES))
