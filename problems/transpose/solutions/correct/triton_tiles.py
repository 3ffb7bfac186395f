#!POPCORN leaderboard transpose
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A tile for each program, turned in registers and shared memory."""

import triton
import triton.language as tl

SIDE = 32


@triton.jit
def transpose(x, output, rows, cols, SIDE: tl.constexpr):
    i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    inside = (i < rows)[:, None] & (j < cols)[None, :]
    tile = tl.load(x + i.to(tl.int64)[:, None] * cols + j[None, :], mask=inside)
    target = output + j.to(tl.int64)[:, None] * rows + i[None, :]
    tl.store(target, tl.trans(tile), mask=tl.trans(inside))


def custom_kernel(data):
    x, output = data
    rows, cols = x.shape
    grid = (triton.cdiv(rows, SIDE), triton.cdiv(cols, SIDE))
    transpose[grid](x, output, rows, cols, SIDE=SIDE)
    return output
