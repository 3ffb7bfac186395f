#!POPCORN leaderboard rmsnorm
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A whole row for each program, read once."""

import triton
import triton.language as tl


@triton.jit
def normalise(x, residual, weight, output, hidden, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * hidden
    at = tl.arange(0, BLOCK)
    inside = at < hidden
    a = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(residual + start + at, mask=inside, other=0.0).to(tl.float32)
    short = (a + b).to(tl.bfloat16)
    tl.store(residual + start + at, short, mask=inside)
    total = short.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(total * total, 0) / hidden + 1e-6)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + start + at, (total * scale * w).to(tl.bfloat16), mask=inside)


def custom_kernel(data):
    x, residual, weight, output = data
    tokens, hidden = x.shape
    normalise[(tokens,)](*data, hidden, BLOCK=triton.next_power_of_2(hidden))
    return residual, output
