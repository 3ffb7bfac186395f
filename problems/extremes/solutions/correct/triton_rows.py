#!POPCORN leaderboard extremes
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A program for each row; the place is the least of those that hold the extreme."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def extremes(x, low, high, low_at, high_at, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = x + row.to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    least = tl.full((BLOCK,), float("inf"), tl.float32)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    least_at = tl.zeros((BLOCK,), tl.int32)
    most_at = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, cols, BLOCK):
        inside = first + at < cols
        values = tl.load(start + first + at, mask=inside, other=0.0)
        is_less = inside & (values < least)
        is_more = inside & (values > most)
        least = tl.where(is_less, values, least)
        most = tl.where(is_more, values, most)
        least_at = tl.where(is_less, first + at, least_at)
        most_at = tl.where(is_more, first + at, most_at)
    bottom = tl.min(least, 0)
    top = tl.max(most, 0)
    tl.store(low + row, bottom)
    tl.store(high + row, top)
    tl.store(low_at + row, tl.min(tl.where(least == bottom, least_at, cols), 0))
    tl.store(high_at + row, tl.min(tl.where(most == top, most_at, cols), 0))


def custom_kernel(data):
    x = data[0]
    extremes[(x.shape[0],)](*data, x.shape[1], BLOCK=BLOCK)
    return data[1:]
