#!POPCORN leaderboard prefix-sum
#!POPCORN gpus CPU
"""One addition a value, in one chain; reading and writing hide behind it."""

import numba


@numba.njit("void(int32[::1], int64[::1])")
def scan(x, output):
    total = 0
    for i in range(x.size):
        total += x[i]
        output[i] = total


def custom_kernel(data):
    x, output = data
    scan(x.numpy(), output.numpy())
    return output
