"""What a submission to prefix-sum takes and gives."""

from typing import TypedDict

import torch

# x: int32 of shape [size]; output: int64 of shape [size]
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    size: int
    seed: int
