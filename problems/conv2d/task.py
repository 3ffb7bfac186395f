"""What a submission to conv2d takes and gives."""

from typing import TypedDict

import torch

# an image [channels, height, width], filters [filters, channels, 3, 3] and
# an output [filters, height, width], all float32
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    channels: int
    filters: int
    height: int
    width: int
    seed: int
