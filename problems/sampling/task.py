"""What a submission to sampling takes and gives."""

from typing import TypedDict

import torch

# logits bfloat16 [batch, vocab]; temperatures, shares, draws float32 [batch]; k an int;
# output int32 [batch]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; `k` is at most `vocab`."""

    batch: int
    vocab: int
    k: int
    seed: int
