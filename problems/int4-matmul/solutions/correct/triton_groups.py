#!POPCORN leaderboard int4-matmul
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of outputs for each program and token, group by group."""

import triton
import triton.language as tl

OUTS = 32


@triton.jit
def multiply(x, packed, scales, zeros, output, outs, ins, groups,
             OUTS: tl.constexpr, HALF: tl.constexpr):  # fmt: skip
    t = tl.program_id(0)
    o = tl.program_id(1) * OUTS + tl.arange(0, OUTS)
    is_out = o < outs
    at = tl.arange(0, HALF)
    total = tl.zeros((OUTS,), tl.float32)
    for g in range(groups):
        first = g * HALF + at
        even = tl.load(x + t * ins + 2 * first).to(tl.float32)
        odd = tl.load(x + t * ins + 2 * first + 1).to(tl.float32)
        place = o.to(tl.int64)[:, None] * (ins // 2) + first[None, :]
        both = tl.load(packed + place, mask=is_out[:, None], other=0)
        zero = tl.load(zeros + o * groups + g, mask=is_out, other=0).to(tl.float32)[:, None]
        scale = tl.load(scales + o * groups + g, mask=is_out, other=0.0)
        low = (both & 15).to(tl.float32) - zero
        high = (both >> 4).to(tl.float32) - zero
        total += scale * tl.sum(low * even[None, :] + high * odd[None, :], 1)
    tl.store(output + t * outs + o, total, mask=is_out)


def custom_kernel(data):
    x, packed, scales, zeros, output = data
    (tokens, ins), (outs, groups) = x.shape, scales.shape
    grid = (tokens, triton.cdiv(outs, OUTS))
    multiply[grid](x, packed, scales, zeros, output, outs, ins, groups,
                   OUTS=OUTS, HALF=ins // groups // 2)  # fmt: skip
    return output
