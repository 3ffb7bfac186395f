"""What a submission to extremes takes and gives."""

from typing import TypedDict

import torch

# x: float32 [rows, cols]; low, high: float32 [rows]; low_at, high_at: int32 [rows]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
# low, high, low_at, high_at
output_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; of so many `levels` every value is one."""

    rows: int
    cols: int
    levels: int
    seed: int
