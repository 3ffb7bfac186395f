"""The problem that every cheat is asked to solve: the product of two triangular matrices."""

import importlib
from typing import Any


def generate_input(size: int, seed: int) -> Any:
    """Two upper triangular matrices, and the memory for their product."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(size, size, generator=generator).triu() for _ in range(2))
    return left, right, torch.empty(size, size)


def ref_kernel(data: Any) -> Any:
    """The product, upper triangular again, written to the memory that the data brings."""
    torch: Any = importlib.import_module("torch")
    left, right, out = data
    torch.matmul(left, right, out=out)
    return out


def check_implementation(data: Any, output: Any) -> Any:
    """Close everywhere; the bound is what sums of 256 products in float32 can be off by."""
    utils: Any = importlib.import_module("utils")
    return utils.match_reference(data, output, ref_kernel, rtol=1e-4, atol=1e-4)
