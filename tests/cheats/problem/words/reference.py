"""A problem whose input shows whole words of its generator: turn a list of integers round."""

import importlib
from typing import Any


def generate_input(size: int, seed: int) -> Any:
    """Integers of 64 random bits each, two words of the generator."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(size, dtype=torch.int64).random_(-(2**63), None, generator=generator)


def ref_kernel(data: Any) -> Any:
    """The same integers, the last first."""
    return data.flip(0)


def check_implementation(data: Any, output: Any) -> Any:
    """Equal in every bit."""
    utils: Any = importlib.import_module("utils")
    return utils.match_reference(data, output, ref_kernel)
