"""What a submission to transpose takes and gives."""

from typing import TypedDict

import torch

# x [rows, cols] and output [cols, rows], both float32, row after row
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    rows: int
    cols: int
    seed: int
