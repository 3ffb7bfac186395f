#!POPCORN leaderboard nearest
#!POPCORN gpus H100 H200 B200 A100 L4 T4 MI300X
"""Tiles on the tensor cores, and the best point so far in registers."""

import torch
import triton
import triton.language as tl

ROWS = 32
COLS = 64


@triton.jit
def nearest(queries, points, squares, output, rows, cols, dim,
            ROWS: tl.constexpr, COLS: tl.constexpr, DIM: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, DIM)
    mask = (i < rows)[:, None] & (k < dim)[None, :]
    query = tl.load(queries + i[:, None] * dim + k[None, :], mask=mask, other=0).to(tl.float32)
    best = tl.full((ROWS,), 1 << 30, tl.int32)
    place = tl.zeros((ROWS,), tl.int32)
    for first in range(0, cols, COLS):
        j = first + tl.arange(0, COLS)
        inside = (k < dim)[:, None] & (j < cols)[None, :]
        point = tl.load(points + j[None, :] * dim + k[:, None], mask=inside, other=0).to(tl.float32)
        square = tl.load(squares + j, mask=j < cols, other=1 << 29)
        distance = square[None, :] - 2 * tl.dot(query, point).to(tl.int32)
        least = tl.min(distance, 1)
        where = tl.min(tl.where(distance == least[:, None], j[None, :], cols), 1)
        place = tl.where(least < best, where, place)
        best = tl.minimum(least, best)
    tl.store(output + i, place, mask=i < rows)


def custom_kernel(data):
    queries, points, output = data
    (rows, dim), cols = queries.shape, len(points)
    squares = points.int().square().sum(1, dtype=torch.int32)
    depth = max(16, triton.next_power_of_2(dim))
    grid = (triton.cdiv(rows, ROWS),)
    nearest[grid](queries, points, squares, output, rows, cols, dim,
                  ROWS=ROWS, COLS=COLS, DIM=depth)  # fmt: skip
    return output
