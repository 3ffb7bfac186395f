"""What a submission to life takes and gives."""

from typing import TypedDict

import torch

# cells: uint8 [height, width], 0 or 1; steps: an int; output: as cells
input_t = tuple[torch.Tensor, int, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    height: int
    width: int
    steps: int
    seed: int
