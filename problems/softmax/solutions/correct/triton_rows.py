#!POPCORN leaderboard softmax
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A whole row for each program: maximum, exponentials and sum from one read."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, output, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + start + at, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(output + start + at, powers / tl.sum(powers, 0), mask=inside)


def custom_kernel(data):
    x, output = data
    rows, cols = x.shape
    softmax[(rows,)](x, output, cols, BLOCK=triton.next_power_of_2(cols))
    return output
