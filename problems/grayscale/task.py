"""What a submission to grayscale takes and gives."""

from typing import TypedDict

import torch

# image: uint8 of shape [height, width, 3]; output: float32 of shape [height, width]
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    height: int
    width: int
    seed: int
