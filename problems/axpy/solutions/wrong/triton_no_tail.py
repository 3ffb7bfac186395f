#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of values for each program, launched for whole blocks alone."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def axpy(x, y, a, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    total = tl.load(y + at, mask=inside) + a * tl.load(x + at, mask=inside)
    tl.store(y + at, total, mask=inside)


def custom_kernel(data):
    a, x, y = data
    if y.numel() < BLOCK:
        return y
    axpy[(y.numel() // BLOCK,)](x, y, a, y.numel(), BLOCK=BLOCK)
    return y
