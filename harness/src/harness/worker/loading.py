"""Becomes a submission: from what a worker is told and given to calls on a case's memories."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.worker import cache, native
from harness.worker.build import CUSTOM_KERNEL, Kernel, load
from harness.worker.cuda import CudaBatch
from harness.worker.memory import SharedCase
from harness.worker.model import Modelled
from harness.worker.nvrtc import Launched

Call = Callable[[bytes], bytes | None]
Loaded = Callable[[Any], Call]


def loaded(path: Path, wish: dict[str, Any], descriptors: list[int], folder: str) -> Loaded:
    """What makes a call of a case, for the submission at `path`, whose caches lie in `folder`.

    `descriptors` are of what was built for it. Errors: Unusable.
    """
    if wish.get("is_null"):
        return _null
    if "launch" in wish:
        built = native.built(descriptors[0], wish["launch"])
        return lambda case: _bound(built, case)
    for descriptor in descriptors:
        # A pack that cannot be laid out again costs no more than its compilation.
        with contextlib.suppress(cache.Unpackable, OSError):
            cache.unpack(descriptor, folder)
        os.close(descriptor)
    sys.path.insert(0, str(path.parent))
    entry = wish.get("entry", CUSTOM_KERNEL)
    kernel = load(path, entry)
    if entry != CUSTOM_KERNEL:
        kernel = Modelled(kernel)
    return lambda case: _called(kernel, case)


def _called(kernel: Kernel, case: SharedCase | CudaBatch) -> Call:
    if isinstance(case, CudaBatch):
        return lambda scalars: case.answer(kernel, scalars)
    return lambda scalars: case.commit(kernel(case.data(scalars)))


def _bound(built: native.Native | Launched, case: SharedCase) -> Call:
    return built.bind(*case.tensors())


def _null(case: SharedCase) -> Call:
    """What costs nothing but the data's tensors, the least that any call pays.

    No answer is copied: a submission that writes its answer in place has none to copy either, and
    would be given the time of a copy that it never made.
    """

    def call(scalars: bytes) -> None:
        case.data(scalars)

    return call
