#!POPCORN leaderboard fp8-quantize
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block for each program; the rounding is done on the bits, so that every GPU can do it."""

import triton
import triton.language as tl


@triton.jit
def quantize(x, codes, exponents, cols, blocks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside, other=0.0)
    word = values.to(tl.int32, bitcast=True)
    top = tl.max(word & 0x7FFFFFFF, 0)
    e = (top >> 23) - 135 + ((top & 0x7FFFFF) > 0x600000).to(tl.int32)
    e = tl.where(top > 0, e, 0)
    tl.store(exponents + row * blocks + block, e.to(tl.int8))
    scale = ((127 - e) << 23).to(tl.float32, bitcast=True)
    scaled = tl.abs(values * scale)
    bits = scaled.to(tl.int32, bitcast=True)
    usual = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - 960
    small = (scaled + 16384.0).to(tl.int32, bitcast=True) & 15
    code = tl.where(bits < 121 * 8388608, small, usual) | ((word >> 24) & 0x80)
    tl.store(codes + row * cols + at, code.to(tl.uint8), mask=inside)


def custom_kernel(data):
    x, codes, exponents = data
    rows, cols = x.shape
    blocks = exponents.shape[1]
    quantize[(rows, blocks)](x, codes, exponents, cols, blocks, BLOCK=128)
    return codes, exponents
