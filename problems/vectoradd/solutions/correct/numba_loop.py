#!POPCORN leaderboard vectoradd
#!POPCORN gpus CPU
"""One compiled loop, vectorised; the signature makes numba compile it at import."""

import numba


@numba.njit("void(float32[::1], float32[::1], float32[::1])")
def add(a, b, output):
    for i in range(output.size):
        output[i] = a[i] + b[i]


def custom_kernel(data):
    a, b, output = data
    add(a.numpy(), b.numpy(), output.numpy())
    return output
