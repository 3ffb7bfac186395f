#!POPCORN leaderboard life
#!POPCORN gpus CPU
"""Two fields in turn; sums of three rows in one line, which vectorises."""

import numpy
from numba import njit


@njit("void(uint8[:, ::1], int64, uint8[:, ::1])")
def live(cells, steps, output):
    height, width = cells.shape
    here, there = cells.copy(), numpy.empty_like(cells)
    rows = numpy.empty(width + 2, numpy.uint8)
    for _ in range(steps):
        for i in range(height):
            above, middle, below = here[i - 1], here[i], here[i + 1 if i + 1 < height else 0]
            for j in range(width):
                rows[j + 1] = above[j] + middle[j] + below[j]
            rows[0], rows[width + 1] = rows[width], rows[1]
            target = there[i]
            for j in range(width):
                total = rows[j] + rows[j + 1] + rows[j + 2]
                target[j] = (total == 3) | ((total == 4) & (middle[j] == 1))
        here, there = there, here
    output[:] = here


def custom_kernel(data):
    cells, steps, output = data
    live(cells.numpy(), steps, output.numpy())
    return output
