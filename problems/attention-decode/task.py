"""What a submission to attention-decode takes and gives."""

from typing import TypedDict

import torch

# q [batch, heads, dim], keys and values [batch, context, kv_heads, dim], output as q, all bfloat16;
# lengths int32 [batch]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `scale` is the deviation of the queries."""

    batch: int
    heads: int
    kv_heads: int
    dim: int
    context: int
    scale: float
    seed: int
