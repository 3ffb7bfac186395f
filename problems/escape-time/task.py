"""What a submission to escape-time takes and gives."""

from typing import TypedDict

import torch

# points: int32 [size, 2], real and imaginary part times 2^24; steps: an int; output: int32 [size]
input_t = tuple[torch.Tensor, int, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    size: int
    steps: int
    seed: int
