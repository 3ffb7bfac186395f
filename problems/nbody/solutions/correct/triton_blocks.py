#!POPCORN leaderboard nbody
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""A block of bodies for each program, against blocks of others."""

import triton
import triton.language as tl

ROWS = 32
COLS = 64


@triton.jit
def accelerate(bodies, output, size, ROWS: tl.constexpr, COLS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = i < size
    x = tl.load(bodies + 4 * i, mask=is_row, other=0.0)[:, None]
    y = tl.load(bodies + 4 * i + 1, mask=is_row, other=0.0)[:, None]
    z = tl.load(bodies + 4 * i + 2, mask=is_row, other=0.0)[:, None]
    ax = tl.zeros((ROWS,), tl.float32)
    ay = tl.zeros((ROWS,), tl.float32)
    az = tl.zeros((ROWS,), tl.float32)
    for first in range(0, size, COLS):
        j = first + tl.arange(0, COLS)
        is_col = j < size
        dx = tl.load(bodies + 4 * j, mask=is_col, other=0.0)[None, :] - x
        dy = tl.load(bodies + 4 * j + 1, mask=is_col, other=0.0)[None, :] - y
        dz = tl.load(bodies + 4 * j + 2, mask=is_col, other=0.0)[None, :] - z
        mass = tl.load(bodies + 4 * j + 3, mask=is_col, other=0.0)[None, :]
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + 0.0009765625)
        pull = mass * inverse * inverse * inverse
        ax += tl.sum(pull * dx, 1)
        ay += tl.sum(pull * dy, 1)
        az += tl.sum(pull * dz, 1)
    tl.store(output + 3 * i, ax, mask=is_row)
    tl.store(output + 3 * i + 1, ay, mask=is_row)
    tl.store(output + 3 * i + 2, az, mask=is_row)


def custom_kernel(data):
    bodies, output = data
    grid = (triton.cdiv(len(bodies), ROWS),)
    accelerate[grid](bodies, output, len(bodies), ROWS=ROWS, COLS=COLS)
    return output
