"""What a submission to matmul takes and gives."""

from typing import TypedDict

import torch

# a [m, k], b [k, n] and output [m, n], all float32, row after row
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    m: int
    n: int
    k: int
    seed: int
