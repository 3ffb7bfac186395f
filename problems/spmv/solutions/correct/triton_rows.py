#!POPCORN leaderboard spmv
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A program for each row, a block of its entries at a time."""

import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def multiply(starts, columns, values, x, output, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin = tl.load(starts + row)
    end = tl.load(starts + row + 1)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(begin, end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < end
        column = tl.load(columns + at, mask=inside, other=0)
        sums += tl.load(values + at, mask=inside, other=0.0) * tl.load(x + column)
    tl.store(output + row, tl.sum(sums, 0))


def custom_kernel(data):
    multiply[(data[-1].numel(),)](*data, BLOCK=BLOCK)
    return data[-1]
