#!POPCORN leaderboard compact
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""Blocks count what they keep; a running sum of the counts says where each block writes."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def counts(x, found, threshold, size, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=0)
    is_kept = (values >= threshold) & (at < size)
    tl.store(found + block, tl.sum(is_kept.to(tl.int32), 0))


@triton.jit
def move(x, ends, kept, threshold, size, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=0)
    is_kept = (values >= threshold) & (at < size)
    before = tl.load(ends + block - 1, mask=block > 0, other=0)
    place = before + tl.cumsum(is_kept.to(tl.int32), 0) - 1
    tl.store(kept + place, values, mask=is_kept)


def custom_kernel(data):
    x, threshold, kept, count = data
    grid = (triton.cdiv(x.numel(), BLOCK),)
    found = torch.empty(grid, dtype=torch.int32, device=x.device)
    counts[grid](x, found, threshold, x.numel(), BLOCK=BLOCK)
    ends = torch.cumsum(found, 0, dtype=torch.int32)
    kept.zero_()
    move[grid](x, ends, kept, threshold, x.numel(), BLOCK=BLOCK)
    return kept, count.copy_(ends[-1:])
