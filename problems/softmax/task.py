"""What a submission to softmax takes and gives."""

from typing import TypedDict

import torch

# x and output, both float32 of shape [rows, cols], row after row
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    rows: int
    cols: int
    scale: float
    seed: int
