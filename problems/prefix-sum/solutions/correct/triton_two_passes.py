#!POPCORN leaderboard prefix-sum
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""Sums of blocks, their running sums, and then every block from its own beginning."""

import torch
import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def sums(x, totals, size, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=0).to(tl.int64)
    tl.store(totals + block, tl.sum(values, 0))


@triton.jit
def scan(x, ends, output, size, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < size, other=0).to(tl.int64)
    before = tl.load(ends + block - 1, mask=block > 0, other=0)
    tl.store(output + at, before + tl.cumsum(values, 0), mask=at < size)


def custom_kernel(data):
    x, output = data
    size = x.numel()
    grid = (triton.cdiv(size, BLOCK),)
    totals = torch.empty(grid, dtype=torch.int64, device=x.device)
    sums[grid](x, totals, size, BLOCK=BLOCK)
    scan[grid](x, torch.cumsum(totals, 0), output, size, BLOCK=BLOCK)
    return output
