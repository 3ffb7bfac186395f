"""The sum over all ranks: right only where every rank has heard of all others."""

import importlib
from typing import Any

# What was drawn last, by rank: its own part alone is shown to a worker.
TOTALS: dict[int, Any] = {}


def generate_input(size: int, seed: int, world_size: int, rank: int) -> Any:
    """A rank's part, and its number."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator("cpu").manual_seed(seed)
    parts = torch.rand(world_size, size, generator=generator)
    TOTALS[rank] = parts.sum(0).to("cuda")
    return parts[rank].to("cuda"), rank


def ref_kernel(data: Any) -> Any:
    """The sum."""
    _, rank = data
    return TOTALS[rank].clone()


def check_implementation(data: Any, output: Any) -> tuple[bool, str]:
    """Close enough for any order of adding."""
    torch: Any = importlib.import_module("torch")
    _, rank = data
    is_close = torch.allclose(output, TOTALS[rank], rtol=1e-5, atol=1e-5)
    return is_close, "" if is_close else "not the sum of all ranks"
