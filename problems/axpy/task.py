"""What a submission to axpy takes and gives."""

from typing import TypedDict

import torch

# a: a Python float; x and y: float32 of shape [size]
input_t = tuple[float, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    size: int
    seed: int
