"""What a submission to rope takes and gives."""

from typing import TypedDict

import torch

# q [tokens, heads, dim], k [tokens, kv_heads, dim], both bfloat16;
# cosines, sines float32 [context, dim / 2]; positions int64 [tokens]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
# q, k
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; `dim` is even."""

    tokens: int
    heads: int
    kv_heads: int
    dim: int
    context: int
    seed: int
