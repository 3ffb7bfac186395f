"""Which kind of case a layout asks for."""

import json

from harness.worker.cuda import CudaBatch, CudaCase
from harness.worker.local import LocalCase
from harness.worker.memory import SharedCase


def case_of(layout: bytes, descriptors: list[int]) -> SharedCase | CudaBatch:
    """The case of a CASE message: on the processor, on a GPU behind a gate, or timed locally."""
    case = json.loads(layout)
    kind = next((told.get("kind", "") for told in case.get("memories", ())), "")
    if kind == "cuda":
        return CudaBatch(layout, descriptors) if "sets" in case else CudaCase(layout, descriptors)
    return LocalCase(layout, descriptors) if kind == "local" else SharedCase(layout, descriptors)
