#!POPCORN leaderboard escape-time
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A small block of points for each program, until the last of them has left."""

import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def escape(points, output, steps, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    a = tl.load(points + 2 * at, mask=inside, other=0).to(tl.int64)
    b = tl.load(points + 2 * at + 1, mask=inside, other=0).to(tl.int64)
    u = tl.zeros((BLOCK,), tl.int64)
    v = tl.zeros((BLOCK,), tl.int64)
    count = tl.zeros((BLOCK,), tl.int32)
    stays = inside
    step = 0
    while (step < steps) & (tl.max(stays.to(tl.int32), 0) > 0):
        uu = u * u
        vv = v * v
        stays = stays & (uu + vv <= 1125899906842624)
        count += stays.to(tl.int32)
        new_v = ((u * v) >> 23) + b
        new_u = ((uu - vv) >> 24) + a
        u = tl.where(stays, new_u, 0)
        v = tl.where(stays, new_v, 0)
        step += 1
    tl.store(output + at, count, mask=inside)


def custom_kernel(data):
    points, steps, output = data
    grid = (triton.cdiv(len(points), BLOCK),)
    escape[grid](points, output, steps, len(points), BLOCK=BLOCK)
    return output
