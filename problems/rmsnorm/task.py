"""What a submission to rmsnorm takes and gives."""

from typing import TypedDict

import torch

# x, residual [tokens, hidden], weight [hidden], output [tokens, hidden], all bfloat16
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
# residual, output
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case."""

    tokens: int
    hidden: int
    seed: int
