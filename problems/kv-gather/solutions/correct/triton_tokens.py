#!POPCORN leaderboard kv-gather
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A token for each program: its place is looked up once, or zeros are written."""

import triton
import triton.language as tl


@triton.jit
def gather(pool, tables, lengths, output, pages, page, width, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    t = tl.program_id(1)
    at = tl.arange(0, BLOCK)
    count = tl.where(t < tl.load(lengths + b), width, 0)
    place = tl.load(tables + b * pages + t // page).to(tl.int64) * page + t % page
    values = tl.load(pool + place * width + at, mask=at < count, other=0)
    target = output + (b.to(tl.int64) * pages * page + t) * width
    tl.store(target + at, values, mask=at < width)


def custom_kernel(data):
    pool, tables, lengths, output = data
    (batch, pages), (_, page, width) = tables.shape, pool.shape
    block = triton.next_power_of_2(width)
    gather[(batch, pages * page)](*data, pages, page, width, BLOCK=block)
    return output
