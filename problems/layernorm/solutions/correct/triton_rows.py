#!POPCORN leaderboard layernorm
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A whole row for each program: its mean, its variance, its output, from one read."""

import triton
import triton.language as tl


@triton.jit
def layernorm(x, weight, bias, output, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + start + at, mask=inside, other=0.0)
    mean = tl.sum(values, 0) / cols
    d = tl.where(inside, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, 0) / cols + 1e-5)
    w = tl.load(weight + at, mask=inside)
    b = tl.load(bias + at, mask=inside)
    tl.store(output + start + at, d * scale * w + b, mask=inside)


def custom_kernel(data):
    x = data[0]
    rows, cols = x.shape
    layernorm[(rows,)](*data, cols, BLOCK=triton.next_power_of_2(cols))
    return data[-1]
