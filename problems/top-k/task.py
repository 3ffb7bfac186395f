"""What a submission to top-k takes and gives."""

from typing import TypedDict

import torch

# logits bfloat16 [rows, vocab]; values bfloat16 [rows, k]; places int32 [rows, k]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# values, places
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; `k` is at most `vocab`."""

    rows: int
    vocab: int
    k: int
    seed: int
