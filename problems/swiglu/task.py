"""What a submission to swiglu takes and gives."""

from typing import TypedDict

import torch

# x [tokens, 2 * inner] and output [tokens, inner], both bfloat16, row after row
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `scale` is the deviation of the values."""

    tokens: int
    inner: int
    scale: float
    seed: int
