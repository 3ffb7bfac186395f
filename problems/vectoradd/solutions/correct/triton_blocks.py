#!POPCORN leaderboard vectoradd
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of values for each program, masked at the end."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def add(a, b, output, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    total = tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside)
    tl.store(output + at, total, mask=inside)


def custom_kernel(data):
    a, b, output = data
    add[(triton.cdiv(output.numel(), BLOCK),)](a, b, output, output.numel(), BLOCK=BLOCK)
    return output
