#!POPCORN leaderboard attention-decode
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A program for each sequence and head, with a running maximum over blocks of tokens."""

import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def attend(q, keys, values, lengths, output, scale, heads, kv_heads, dim, context,
           BLOCK: tl.constexpr, DIM: tl.constexpr):  # fmt: skip
    b = tl.program_id(0)
    h = tl.program_id(1)
    g = h * kv_heads // heads
    j = tl.arange(0, DIM)
    is_col = j < dim
    query = tl.load(q + (b * heads + h) * dim + j, mask=is_col, other=0.0).to(tl.float32) * scale
    length = tl.load(lengths + b)
    top = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((DIM,), tl.float32)
    start = b.to(tl.int64) * context
    for first in range(0, length, BLOCK):
        t = first + tl.arange(0, BLOCK)
        is_token = t < length
        place = ((start + t) * kv_heads + g)[:, None] * dim + j[None, :]
        mask = is_token[:, None] & is_col[None, :]
        key = tl.load(keys + place, mask=mask, other=0.0).to(tl.float32)
        scores = tl.sum(key * query[None, :], 1)
        scores = tl.where(is_token, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        weights = tl.exp(scores - higher)
        fade = tl.exp(top - higher)
        value = tl.load(values + place, mask=mask, other=0.0).to(tl.float32)
        sums = sums * fade + tl.sum(weights[:, None] * value, 0)
        total = total * fade + tl.sum(weights, 0)
        top = higher
    result = (sums / total).to(tl.bfloat16)
    tl.store(output + (b * heads + h) * dim + j, result, mask=is_col)


def custom_kernel(data):
    q, keys, values, lengths, output = data
    batch, heads, dim = q.shape
    attend[(batch, heads)](
        q, keys, values, lengths, output, dim**-0.5, heads, keys.shape[2], dim, keys.shape[1],
        BLOCK=BLOCK, DIM=triton.next_power_of_2(dim),
    )  # fmt: skip
    return output
