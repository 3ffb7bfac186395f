#!POPCORN leaderboard axpy
#!POPCORN gpus CPU
"""One compiled loop, vectorised, with one rounding a value where the processor has it."""

import numba


@numba.njit("void(float32, float32[::1], float32[::1])", fastmath={"contract"})
def axpy(a, x, y):
    for i in range(y.size):
        y[i] += a * x[i]


def custom_kernel(data):
    a, x, y = data
    axpy(a, x.numpy(), y.numpy())
    return y
