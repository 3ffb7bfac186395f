"""What a submission to nearest takes and gives."""

from typing import TypedDict

import torch

# queries [queries, dim] and points [points, dim], both int8, and output [queries], int32
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; values are from -span to span."""

    queries: int
    points: int
    dim: int
    span: int
    seed: int
