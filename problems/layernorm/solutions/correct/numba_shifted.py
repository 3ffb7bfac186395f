#!POPCORN leaderboard layernorm
#!POPCORN gpus CPU
"""One visit for both sums, of differences from the row's first value, and one for the output."""

import numpy
from numba import njit

F = numpy.float32
EPS, ONE = F(1e-5), F(1)


@njit(
    "void(float32[:, ::1], float32[::1], float32[::1], float32[:, ::1])",
    fastmath={"contract", "reassoc", "nsz"},
)
def layernorm(x, weight, bias, output):
    share = ONE / F(x.shape[1])
    for row in range(x.shape[0]):
        source, target = x[row], output[row]
        first = source[0]
        total = F(0)
        squares = F(0)
        for j in range(source.size):
            d = source[j] - first
            total += d
            squares += d * d
        middle = total * share
        variance = max(squares * share - middle * middle, F(0))
        scale = ONE / numpy.sqrt(variance + EPS)
        for j in range(source.size):
            target[j] = (source[j] - first - middle) * scale * weight[j] + bias[j]


def custom_kernel(data):
    layernorm(*(tensor.numpy() for tensor in data))
    return data[-1]
