"""A tiny problem: copy a matrix into a buffer that comes with the data."""

import importlib
from typing import Any


def generate_input(size: int, seed: int) -> Any:
    """Return a matrix of normal values, and the buffer for its copy."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, size, generator=generator), torch.empty(size, size)


def ref_kernel(data: Any) -> Any:
    """Copy the matrix."""
    matrix, out = data
    out.copy_(matrix)
    return out


def check_implementation(data: Any, output: Any) -> Any:
    """Require equality everywhere."""
    utils: Any = importlib.import_module("utils")
    return utils.verbose_allequal(output, ref_kernel(data))
