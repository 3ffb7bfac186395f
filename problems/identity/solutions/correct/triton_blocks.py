#!POPCORN leaderboard identity
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of values for each program, as whole numbers, masked at the end."""

import torch
import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def copy(source, output, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(output + at, tl.load(source + at, mask=at < size), mask=at < size)


def custom_kernel(data):
    source, output = (tensor.view(torch.int32) for tensor in data)
    copy[(triton.cdiv(source.numel(), BLOCK),)](source, output, source.numel(), BLOCK=BLOCK)
    return data[1]
