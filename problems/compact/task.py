"""What a submission to compact takes and gives."""

from typing import TypedDict

import torch

# x: int32 [size]; threshold: an int; kept: int32 [size]; count: int32 [1]
input_t = tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]
# kept, count
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; values are from 0 to 999."""

    size: int
    threshold: int
    seed: int
