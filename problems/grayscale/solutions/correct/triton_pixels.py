#!POPCORN leaderboard grayscale
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of pixels for each program, read channel by channel from the cache."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def luma(image, output, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    red = tl.load(image + 3 * at, mask=inside, other=0).to(tl.float32)
    green = tl.load(image + 3 * at + 1, mask=inside, other=0).to(tl.float32)
    blue = tl.load(image + 3 * at + 2, mask=inside, other=0).to(tl.float32)
    total = 299.0 * red + 587.0 * green + 114.0 * blue
    tl.store(output + at, total * (1.0 / 255000.0), mask=inside)


def custom_kernel(data):
    image, output = data
    luma[(triton.cdiv(output.numel(), BLOCK),)](image, output, output.numel(), BLOCK=BLOCK)
    return output
