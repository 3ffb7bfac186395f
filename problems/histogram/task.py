"""What a submission to histogram takes and gives."""

from typing import TypedDict

import torch

# values: uint8 of shape [size]; output: int32 of shape [256]
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `spread` is uniform, skewed or peaked."""

    size: int
    spread: str
    seed: int
