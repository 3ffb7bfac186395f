"""What a submission to kv-gather takes and gives."""

from typing import TypedDict

import torch

# pool int16 [2 * batch * pages, page, width]; tables int32 [batch, pages]; lengths int32 [batch];
# output int16 [batch, pages * page, width]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """The arguments of one case."""

    batch: int
    pages: int
    page: int
    width: int
    seed: int
