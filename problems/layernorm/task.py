"""What a submission to layernorm takes and gives."""

from typing import TypedDict

import torch

# x [rows, cols], weight [cols], bias [cols] and output [rows, cols], all float32
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `offset` is the mean of the values, whose deviation is 1."""

    rows: int
    cols: int
    offset: float
    seed: int
