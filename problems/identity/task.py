"""What a submission to identity takes and gives."""

from typing import TypedDict

import torch

# source and output, both float32 of shape [size]
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    size: int
    seed: int
