"""A problem whose known kernel must pass wherever a submission can be judged: copy a vector."""

import importlib
from typing import Any


def generate_input(size: int, seed: int) -> Any:
    """Random values, and the memory for the answer."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, generator=generator), torch.empty(size)


def ref_kernel(data: Any) -> Any:
    """Copy the values."""
    values, output = data
    output.copy_(values)
    return output


def check_implementation(data: Any, output: Any) -> tuple[bool, str]:
    """Whether every value is the same."""
    torch: Any = importlib.import_module("torch")
    return bool(torch.equal(data[0], output)), "the copy differs from its source"
