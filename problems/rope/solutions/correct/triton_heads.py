#!POPCORN leaderboard rope
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A token for each program: its angles once, its heads one after the other."""

import triton
import triton.language as tl


@triton.jit
def turn(x, cosines, sines, positions, heads, pairs, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < pairs
    row = tl.load(positions + token) * pairs
    c = tl.load(cosines + row + i, mask=inside, other=0.0)
    s = tl.load(sines + row + i, mask=inside, other=0.0)
    for head in range(heads):
        start = x + (token * heads + head) * 2 * pairs
        first = tl.load(start + i, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(start + pairs + i, mask=inside, other=0.0).to(tl.float32)
        tl.store(start + i, (first * c - second * s).to(tl.bfloat16), mask=inside)
        tl.store(start + pairs + i, (second * c + first * s).to(tl.bfloat16), mask=inside)


def custom_kernel(data):
    q, k, cosines, sines, positions = data
    for x in (q, k):
        tokens, heads, dim = x.shape
        block = triton.next_power_of_2(dim // 2)
        turn[(tokens,)](x, cosines, sines, positions, heads, dim // 2, BLOCK=block)
    return q, k
