"""What a submission to int4-matmul takes and gives."""

from typing import TypedDict

import torch

# x bfloat16 [tokens, ins]; packed uint8 [outs, ins / 2]; scales float32 [outs, ins / group];
# zeros uint8 [outs, ins / group]; output float32 [tokens, outs]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `ins` is a multiple of `group`."""

    tokens: int
    outs: int
    ins: int
    group: int
    seed: int
