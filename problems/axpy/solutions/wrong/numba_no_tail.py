#!POPCORN gpus CPU
"""A compiled loop that handles whole blocks of four alone."""

import numba


@numba.njit("void(float32, float32[::1], float32[::1])", fastmath={"contract"})
def axpy(a, x, y):
    for i in range(y.size // 4 * 4):
        y[i] += a * x[i]


def custom_kernel(data):
    a, x, y = data
    axpy(a, x.numpy(), y.numpy())
    return y
