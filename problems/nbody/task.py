"""What a submission to nbody takes and gives."""

from typing import TypedDict

import torch

# bodies [size, 4]: x, y, z and mass; output [size, 3]; both float32, row after row
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    size: int
    seed: int
