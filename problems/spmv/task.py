"""What a submission to spmv takes and gives."""

from typing import TypedDict

import torch

# starts [rows + 1] and columns [entries], both int32;
# values [entries], x [cols] and output [rows], all float32
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case; a row has about `mean` entries, some have none, some many."""

    rows: int
    cols: int
    mean: int
    seed: int
