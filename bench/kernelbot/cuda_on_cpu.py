"""What KernelBot's evaluation needs of CUDA, on a machine without a GPU.

Imported by the problem's reference, so in each process of the evaluation. Events read the wall
clock, tensors stay where they are, and synchronizing does nothing. Before each timed call the
evaluation overwrites 256 MiB to clear a GPU's caches, which takes a GPU 0.1 ms and a core 80 ms:
here it overwrites what the second-level cache of two cores holds.
"""

import time
from typing import Any

import torch

CACHE_ELEMENTS = 4 * 2**20 // 8

_empty, _to = torch.empty, torch.Tensor.to


class Event:
    """An instant of the wall clock."""

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.is_timing, self.at_ns = enable_timing, 0

    def record(self) -> None:
        """Remember the present instant."""
        self.at_ns = time.perf_counter_ns()

    def elapsed_time(self, end: "Event") -> float:
        """Return the milliseconds until a later event."""
        return (end.at_ns - self.at_ns) / 1e6


def _is_cuda(device: object) -> bool:
    return str(device).startswith("cuda")


def _empty_on_cpu(*size: Any, device: Any = None, **options: Any) -> torch.Tensor:
    if not _is_cuda(device):
        return _empty(*size, device=device, **options)
    count = torch.Size(size[0] if isinstance(size[0], tuple) else size).numel()
    return _empty(min(count, CACHE_ELEMENTS), **options)


def _to_cpu(tensor: torch.Tensor, *targets: Any, **options: Any) -> torch.Tensor:
    return tensor if targets and _is_cuda(targets[0]) else _to(tensor, *targets, **options)


REPLACEMENTS = (
    (torch, "empty", _empty_on_cpu),
    (torch.Tensor, "to", _to_cpu),
    (torch.cuda, "Event", Event),
    (torch.cuda, "synchronize", lambda *_: None),
)
if not torch.cuda.is_available():
    for owner, name, replacement in REPLACEMENTS:
        setattr(owner, name, replacement)
