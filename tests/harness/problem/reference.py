"""A tiny problem: copy a matrix into the memory that the data brings."""

import importlib
from typing import Any


def generate_input(size: int, seed: int) -> Any:
    """A matrix of normal values, and the memory for its copy."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, size, generator=generator), torch.empty(size, size)


def ref_kernel(data: Any) -> Any:
    """The copy."""
    matrix, out = data
    out.copy_(matrix)
    return out


def check_implementation(data: Any, output: Any) -> Any:
    """Equal everywhere."""
    utils: Any = importlib.import_module("utils")
    return utils.verbose_allequal(output, ref_kernel(data))
