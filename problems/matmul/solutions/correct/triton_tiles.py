#!POPCORN leaderboard matmul
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A tile of the output for each program, in full float32."""

import triton
import triton.language as tl

SIDE = 32


@triton.jit
def multiply(a, b, output, m, n, k, SIDE: tl.constexpr):
    i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for first in range(0, k, SIDE):
        term = first + tl.arange(0, SIDE)
        left = tl.load(a + i[:, None] * k + term[None, :],
                       mask=(i < m)[:, None] & (term < k)[None, :], other=0.0)  # fmt: skip
        right = tl.load(b + term[:, None] * n + j[None, :],
                        mask=(term < k)[:, None] & (j < n)[None, :], other=0.0)  # fmt: skip
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(output + i[:, None] * n + j[None, :], total, mask=(i < m)[:, None] & (j < n)[None, :])


def custom_kernel(data):
    a, b, output = data
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, SIDE), triton.cdiv(n, SIDE))
    multiply[grid](a, b, output, m, n, k, SIDE=SIDE)
    return output
