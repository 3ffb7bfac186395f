#!POPCORN leaderboard transpose
#!POPCORN gpus CPU
"""Blocks that fit a cache with their lines on both sides; an odd edge is a smaller block."""

import numba

SIDE = 16


@numba.njit("void(float32[:, ::1], float32[:, ::1])")
def transpose(x, output):
    rows, cols = x.shape
    for top in range(0, rows, SIDE):
        bottom = min(top + SIDE, rows)
        for left in range(0, cols, SIDE):
            for j in range(left, min(left + SIDE, cols)):
                for i in range(top, bottom):
                    output[j, i] = x[i, j]


def custom_kernel(data):
    x, output = data
    transpose(x.numpy(), output.numpy())
    return output
