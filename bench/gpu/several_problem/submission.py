"""Adds up by NCCL, which comes up in the first call."""

import importlib
from typing import Any


def custom_kernel(data: Any) -> Any:
    """The sum of every rank's part."""
    dist: Any = importlib.import_module("torch.distributed")
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    mine, _ = data
    total = mine.clone()
    dist.all_reduce(total)
    return total
