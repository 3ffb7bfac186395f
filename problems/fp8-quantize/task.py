"""What a submission to fp8-quantize takes and gives."""

from typing import TypedDict

import torch

# x float32 [rows, cols]; codes uint8 [rows, cols]; exponents int8 [rows, ceil(cols / 128)]
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# codes, exponents
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    """The arguments of one case; blocks differ in size by up to 2^spread either way."""

    rows: int
    cols: int
    spread: int
    seed: int
