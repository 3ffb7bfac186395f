"""What a submission to moe-routing takes and gives."""

from typing import TypedDict

import torch

# logits float32 [tokens, experts]; experts int32 and weights float32 [tokens, chosen];
# counts int32 [experts]; order int32 [tokens * chosen]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
# experts, weights, counts, order
output_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; a logit is one of `levels` different values."""

    tokens: int
    experts: int
    chosen: int
    levels: int
    seed: int
