#!POPCORN leaderboard histogram
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A histogram for each block, added up in global memory; what is masked is counted and taken off."""

import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def count(values, output, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    taken = tl.load(values + at, mask=at < size, other=0).to(tl.int32)
    bins = tl.arange(0, 256)
    found = tl.histogram(taken, 256)
    missing = tl.sum((at >= size).to(tl.int32), 0)
    tl.atomic_add(output + bins, found - tl.where(bins == 0, missing, 0))


def custom_kernel(data):
    values, output = data
    output.zero_()
    count[(triton.cdiv(values.numel(), BLOCK),)](values, output, values.numel(), BLOCK=BLOCK)
    return output
