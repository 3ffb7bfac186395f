#!POPCORN leaderboard swiglu
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of columns of a token for each program."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def swiglu(x, output, inner, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < inner
    gate = tl.load(x + token * 2 * inner + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + (token * 2 + 1) * inner + at, mask=inside, other=0.0).to(tl.float32)
    result = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(output + token * inner + at, result.to(tl.bfloat16), mask=inside)


def custom_kernel(data):
    x, output = data
    tokens, inner = output.shape
    swiglu[(tokens, triton.cdiv(inner, BLOCK))](x, output, inner, BLOCK=BLOCK)
    return output
