#!POPCORN leaderboard spmv
#!POPCORN gpus CPU
"""A row after the other, with four sums side by side so that no addition waits for the last."""

import numpy
from numba import njit

F = numpy.float32


@njit("void(int32[::1], int32[::1], float32[::1], float32[::1], float32[::1])")
def multiply(starts, columns, values, x, output):
    for row in range(output.size):
        a = b = c = d = F(0)
        at, end = starts[row], starts[row + 1]
        while at + 4 <= end:
            a += values[at] * x[columns[at]]
            b += values[at + 1] * x[columns[at + 1]]
            c += values[at + 2] * x[columns[at + 2]]
            d += values[at + 3] * x[columns[at + 3]]
            at += 4
        while at < end:
            a += values[at] * x[columns[at]]
            at += 1
        output[row] = (a + b) + (c + d)


def custom_kernel(data):
    multiply(*(tensor.numpy() for tensor in data))
    return data[-1]
